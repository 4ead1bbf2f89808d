"""The synchronous client's event loop: its thread, calls into it and out of it."""
