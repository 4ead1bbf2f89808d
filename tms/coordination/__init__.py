"""Locks, leader election and counters on any metadata store.

Locks and leadership are advisory: a holder may have lost one without knowing it yet. Each carries a
fencing token that grows; docs/coordination.md shows how to use it.
"""

from tms.coordination.election import LeaderElection, LeaderState
from tms.coordination.lock import ResourceLock
from tms.coordination.service import CoordinationService

__all__ = ["CoordinationService", "LeaderElection", "LeaderState", "ResourceLock"]
