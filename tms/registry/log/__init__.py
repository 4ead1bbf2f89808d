"""The topic of the registry: who writes it, and the service that follows it."""
