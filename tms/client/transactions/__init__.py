"""Transactions of a program: what was published in them, their participants, and how they end."""
