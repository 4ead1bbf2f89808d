"""Puts a server together: its stores, services, security, registry, and how it runs and stops."""
