"""Polls: where they start, how they follow a topic, where they stop, and what they give."""
