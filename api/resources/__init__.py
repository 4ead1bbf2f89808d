"""One file per resource of REST: its handlers, and the table of its operations."""
