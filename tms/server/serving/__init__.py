"""Runs a server: alone, one of a cluster that leads a store in turns, or one that shares shards."""
