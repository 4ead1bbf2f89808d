"""Authentication, rules, and limits of principals, independent of HTTP."""
