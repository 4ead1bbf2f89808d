"""The values of the service, and the rules that belong to them. Nothing here waits or writes."""
