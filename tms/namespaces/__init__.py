"""Namespaces and their settings, kept in a metadata store and followed while servers run.

It is what PIP-45 calls a configuration store.
"""
