"""Servers that ask who calls."""

from tests.api.security.secured import optional, pair

__all__ = ["optional", "pair"]
