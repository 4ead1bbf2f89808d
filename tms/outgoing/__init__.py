"""HTTP/1.1 as a client: addresses, kept connections, proxies, and how answers are bounded."""
