"""HTTP/1.1 in bytes: heads, framing, bodies, and the bounds on both sides of a connection."""
