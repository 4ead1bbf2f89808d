"""Keys, the Store interface with its implementations, and the tables built on it."""
