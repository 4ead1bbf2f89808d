"""Sockets and TLS: from a connection to an application."""
