"""Polls: their start, following a topic, the stops of readers, and what polls return."""
