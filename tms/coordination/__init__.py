"""Locks, leader election and counters on any metadata store.

Both locks and leadership are advisory: whoever holds one may have lost it without knowing yet. Each
carries a fencing token that grows; docs/coordination.md shows how to use it.
"""

from tms.coordination.election import LeaderElection, LeaderState
from tms.coordination.lock import ResourceLock
from tms.coordination.service import CoordinationService

__all__ = ["CoordinationService", "LeaderElection", "LeaderState", "ResourceLock"]
