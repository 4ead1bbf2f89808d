"""The mechanisms of authentication, rules, and limits of principals, without HTTP."""
