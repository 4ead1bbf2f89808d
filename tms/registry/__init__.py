"""The schema registry: what services agree on about their messages, kept on a topic."""
