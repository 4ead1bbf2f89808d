"""Messages as Arrow's columns: a poll's answer, and what is published or stored in bulk.

Needs the extra `arrow` (pyarrow and numpy); nothing else of TMS imports this package unasked.
"""
