"""Namespaces and their settings, kept in a metadata store and followed while servers run.

PIP-45 calls this a configuration store.
"""
