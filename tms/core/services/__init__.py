"""The interfaces of the services, and what they take and report."""
