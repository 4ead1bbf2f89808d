"""Topics and subscriptions, synchronous and not."""
