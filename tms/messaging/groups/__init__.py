"""Groups: many members share the messages of a topic; each takes some and settles them."""
