"""Who may ask what: callers, access control, and the audit."""
