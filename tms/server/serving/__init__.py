"""Runs a server: a standalone one, or one of a cluster that shares a store's shards."""
