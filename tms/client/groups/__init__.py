"""Groups of a topic: takes, leases, settles and workers."""
