"""A server of a cluster: it answers requests while it leads, and otherwise forwards them."""
