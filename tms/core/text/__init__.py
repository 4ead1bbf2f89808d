"""Texts: what is printed of values, and what is read from texts. All else may use it."""
