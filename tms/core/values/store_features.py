"""Features of a store: a version refuses a store with a recorded feature it does not know.

A feature is recorded when it is first used, so a store that has not used it can go back to an older
version. DO NOT CHANGE the names: stored.
"""

from typing import Final

FILTERS: Final = "filters"
GROUPS: Final = "groups"
SCHEDULES: Final = "schedules"
FEATURES: Final = (FILTERS, GROUPS, SCHEDULES)
"""The features that this version knows, sorted."""
