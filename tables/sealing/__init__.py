"""Hides late writes of earlier leaders: a seal for each topic, and a Store that obeys it."""
