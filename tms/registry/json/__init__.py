"""Schemas in JSON Schema: parsed, written, compared."""
