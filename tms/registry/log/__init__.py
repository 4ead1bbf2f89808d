"""The registry's topic: its master, and the service that reads and writes it."""
