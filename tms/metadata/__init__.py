"""Versioned values in a tree of paths, which can be watched: PIP-45's MetadataStore.

`interface.py` says what every store guarantees; `cache.py` keeps decoded values of any store fresh.
"""
