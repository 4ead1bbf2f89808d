"""Who somebody is, what each may do, and how much: the mechanisms. Nothing here knows of HTTP."""
