"""Features of a store: a version that does not know one that is recorded refuses the store.

A feature is recorded when it is first used, so a store that has not used it can go back to an older
version. DO NOT CHANGE the names: stored.
"""

from typing import Final

GROUPS: Final = "groups"
SCHEDULES: Final = "schedules"
FEATURES: Final = (GROUPS, SCHEDULES)
"""The features that this version knows, sorted."""
