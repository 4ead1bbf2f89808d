"""Values in payloads and keys: encoded and decoded by schemas, in Confluent's wire format.

A *serde* encodes and decodes by one schema, and is pure. `serdes` and `records` find schemas in a
registry. All of it needs the extra `schemas`.
"""
