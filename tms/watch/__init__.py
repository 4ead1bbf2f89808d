"""The last hour of a server, and whatever is wrong with it."""
