"""Polls: where they start, how they follow a topic, where they stop, what they return."""
