"""Access control: who may call what, and the audit of it."""
