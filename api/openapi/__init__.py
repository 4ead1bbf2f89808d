"""The OpenAPI document: schemas of bodies, and the document built from a table of operations."""
