"""The state of the registry, the records that determine it, and its decisions."""
