"""How a client reaches a server: addresses, credentials, requests, retries, services."""
