"""The last hour of a server, and what is wrong with it."""
