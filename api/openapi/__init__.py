"""The OpenAPI document: schemas of bodies, and what is made of the table of operations."""
