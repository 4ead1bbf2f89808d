"""TMS: a transactional messaging service."""

__version__ = "0.1.0"
