"""Who may do what: identities, rules, and the decision. Pure; nothing here asks anybody."""
