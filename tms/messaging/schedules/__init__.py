"""Messages that are published later."""
