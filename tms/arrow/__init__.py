"""Messages as Arrow columns, for answers to polls, and for publishes and stores in bulk.

Needs the extra `arrow` (pyarrow and numpy); no other part of TMS imports this package unless Arrow
is used.
"""
