"""Schemas in Protobuf: parsed, written, compared."""
