"""Several servers on one store: they know of each other, and one leads at a time."""
