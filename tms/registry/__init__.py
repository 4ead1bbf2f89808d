"""The schema registry: what services agree on about their messages, stored in a topic."""
