"""Records of the registry's log, the state they make, and decisions by that state."""
