"""Keys, the Store interface with its implementations, and the three tables written on it."""
