"""Several servers on one store: they know one another, and one leads at a time."""
