"""Versioned values in a tree of paths, which can be watched: PIP-45's MetadataStore.

`interface.py` is what every store does, `cache.py` keeps decoded values fresh on any of them.
"""
