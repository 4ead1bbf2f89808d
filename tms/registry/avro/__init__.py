"""Schemas in Avro: parsed, written, compared."""
