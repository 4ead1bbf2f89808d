"""Deletes rows that no reader can see any more, and inspects tables."""
