"""Deletes rows that readers can no longer see, and inspects tables."""
