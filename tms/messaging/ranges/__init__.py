"""Ranges of topics: their ends, their splitting, and the entries from before a restart."""
