"""Each operation with a valid request for it."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from api.app import OPERATIONS
from api.http.operation import Operation

BODIES: Mapping[str, Any] = {
    "publish": {"messages": ["x"]},
    "publishAll": {"topics": {"t": ["x"]}},
    "getPositions": {"topics": ["t"]},
    "poll": {},
    "startTransaction": {},
    "trimTopic": {"before": 1},
    "createSubscription": {},
}
QUERIES: Mapping[str, str] = {"stream": "wait=0", "consoleStream": "wait=0"}
"""The query with which an endless answer ends."""
FOR_SUPERUSERS = {"acceptClock", "listBackups", "takeBackup", "verifyBackup", "deleteBackup"}
"""Operations that no rule can grant."""


def targets(transaction: int) -> Iterator[tuple[Operation, str, bytes]]:
    """Yield each operation with a path and a body that are valid for it."""
    names = {
        "namespace": "ns",
        "topic": "t",
        "subscription": "s",
        "transaction_id": transaction,
        "scheduled_id": "0" * 32,
        "id": "none",
        "backup": "b",
    }
    for operation in OPERATIONS:
        required = [each["name"] for each in operation.query if each.get("required")]
        query = "&".join(f"{name}={'0' * 40}" for name in required) or QUERIES.get(operation.name)
        path = operation.path.format(**names) + (f"?{query}" if query else "")
        body = json.dumps(BODIES.get(operation.name, {})) if operation.request else ""
        yield operation, path, body.encode()
