"""Text: how values are formatted and parsed. Any other room may use it."""
