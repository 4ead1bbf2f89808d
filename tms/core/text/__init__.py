"""Formats and parses values as text. Any package may use it."""
