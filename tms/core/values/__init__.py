"""The values of the service and their rules. Nothing here waits or writes."""
