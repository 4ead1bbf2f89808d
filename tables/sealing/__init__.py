"""Hides what earlier leaders send late: a seal for each topic, and a Store that goes by it."""
