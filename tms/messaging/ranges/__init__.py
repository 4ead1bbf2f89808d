"""Ranges of topics: where they end, how they are split, and what was there before a restart."""
