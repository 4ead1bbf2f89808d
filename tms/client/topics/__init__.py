"""Topics and subscriptions, synchronous and asynchronous."""
