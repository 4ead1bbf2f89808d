"""Each operation declares the action that it requires; few require none."""

import pytest

from api.app import OPERATIONS
from api.http.operation import Operation
from api.registry.application import operations_of
from tests.registry.conftest import registries
from tests.registry.registries import Registries
from tms.security.resources import ACTIONS_OF, Action, Kind

__all__ = ["registries"]

READING = {Action.DESCRIBE, Action.CONSUME, Action.READ, Action.OPERATE, None}
ASKING = {"poll", "getPositions", "look_up_schema", "check_version", "check_versions"}
"""Operations that only read, though they use POST."""


@pytest.fixture
async def of_registry(registries: Registries) -> tuple[Operation, ...]:
    return operations_of(registries.make().registry)


def test_only_what_tells_that_the_server_is_there_is_open() -> None:
    opened = {operation.path for operation in OPERATIONS if operation.action is None}
    assert opened == {"/", "/ping", "/health", "/ready"}


def test_what_names_a_topic_has_an_action_on_topics() -> None:
    for operation in OPERATIONS:
        if "{topic}" in operation.path and operation.action is not Action.OPERATE:
            assert operation.action in ACTIONS_OF[Kind.TOPIC], operation.name


@pytest.mark.anyio
async def test_the_registry_has_actions_on_subjects(of_registry: tuple[Operation, ...]) -> None:
    actions = {operation.action for operation in of_registry}
    assert actions == ACTIONS_OF[Kind.SUBJECT]


@pytest.mark.anyio
async def test_what_changes_something_is_not_allowed_to_who_may_only_read(
    of_registry: tuple[Operation, ...],
) -> None:
    for operation in (*OPERATIONS, *of_registry):
        if operation.method != "GET" and operation.name not in ASKING:
            assert operation.action not in READING - {Action.OPERATE}, operation.name
        if operation.name in ASKING:
            assert operation.action in READING, operation.name
