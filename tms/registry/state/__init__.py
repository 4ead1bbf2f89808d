"""The state of the registry, the records that it follows from, and its decisions."""
