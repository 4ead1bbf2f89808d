"""Which process of pytest-xdist runs which tests.

A file's tests run in one process, and so do those of a folder that shares something expensive. All
tests that start Java or a real metadata server run in one process, one folder after the other: two
such folders take longer side by side than in turn, and each server is started once.
"""

from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling

TOGETHER = ("tests/structure/", "tests/tables/hbase/", "tests/faults/hbase/", "tests/spark/")
"""The folders that are one unit of work."""

ON_METADATA_SERVERS = (
    "tests/cluster/test_on_servers.py",
    "tests/coordination/test_on_servers.py",
    "tests/metadata/test_command_line.py",
    "tests/metadata/test_crashes.py",
    "tests/metadata/test_faults.py",
    "tests/metadata/test_live_values.py",
    "tests/metadata/test_secured_servers.py",
    "tests/metadata/test_server_models.py",
    "tests/metadata/test_server_stores.py",
    "tests/registry/test_masters.py",
    "tests/registry/test_secured_masters.py",
    "tests/security/test_grants.py",
)
"""The files that use ZooKeeper and etcd (tests/metadata/servers.py)."""

IN_TURN = (
    *ON_METADATA_SERVERS,
    "tests/faults/hbase/",
    "tests/tables/hbase/",
    "tests/spark/",
    "tests/metadata/test_commands.py",
    "tests/cdap/test_cdap_client.py",
)
"""The tests that one process runs, in this order, before it takes part in the rest."""


class InTurn(LoadScopeScheduling):  # type: ignore[misc]  # it has no types
    """Gives a process the tests of a file or folder; the first process those of `IN_TURN`."""

    def __init__(self, config: pytest.Config, log: Any) -> None:
        """Keep the order of collection."""
        config.option.loadscopereorder = False
        super().__init__(config, log)
        self._runs_in_turn: Any = None

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.partition("::")[0]
        return next((folder for folder in TOGETHER if file.startswith(folder)), file)

    def _assign_work_unit(self, node: Any) -> None:
        """Give `node` its next unit of work, or let it end if the rest belongs to others."""
        in_turn = [scope for scope in IN_TURN if scope in self.workqueue]
        if in_turn and self._runs_in_turn in (None, node):
            self._runs_in_turn = node
            self.workqueue.move_to_end(in_turn[0], last=False)
        else:
            others = (scope for scope in self.workqueue if scope not in IN_TURN)
            scope = next(others, None)
            if scope is None:
                node.shutdown()
                return
            self.workqueue.move_to_end(scope, last=False)
        super()._assign_work_unit(node)

    def remove_node(self, node: Any) -> str | None:
        """Return the test in which `node` crashed, and assign the tests that it did not run.

        The crashed test counts as failed, and is not run again: it may have waited for ten minutes.
        The scheduler of pytest-xdist would run it again, and then assign what the process had
        finished, too: the replacement process waits for ever if it gets only such a unit.
        """
        if node is self._runs_in_turn:
            self._runs_in_turn = None
        work = self.assigned_work.pop(node)
        crashed = next(
            (test for unit in work.values() for test, is_done in unit.items() if not is_done), None
        )
        if crashed is not None:
            work[self._split_scope(crashed)][crashed] = True
            left = {scope: unit for scope, unit in work.items() if not all(unit.values())}
            self.workqueue.update(left)
            for other in self.nodes:
                self._reschedule(other)
        return crashed

    def _reschedule(self, node: Any) -> None:
        """Give `node` two tests, because it starts none before that, or let it end."""
        while not node.shutting_down and self._pending_of(self.assigned_work[node]) < 2:
            super()._reschedule(node)
