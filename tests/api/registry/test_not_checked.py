"""A slow or dying checker decides nothing about a schema: the caller may retry."""

from collections.abc import Sequence
from typing import Any

import pytest

from tests.api.registry.live import Api, refused
from tests.registry.registries import record
from tms.core.errors import SchemasUnavailable
from tms.registry.questions.questions import Answer, Question

pytestmark = pytest.mark.anyio


class OutOfTime:
    """A checker that never answers in time (`tests/registry/test_checker.py` tests real ones)."""

    killed = 0

    async def answers(self, questions: Sequence[Question]) -> list[Answer]:
        raise SchemasUnavailable(reason=f"{len(questions)} questions took too long")


ASKED: list[tuple[str, str, Any]] = [
    ("POST", "/subjects/s/versions", {"schema": record("b")}),
    ("POST", "/subjects/s/versions?normalize=true", {"schema": record("a")}),
    ("POST", "/subjects/s", {"schema": record("b")}),
    ("POST", "/compatibility/subjects/s/versions/1", {"schema": record("b")}),
    ("POST", "/compatibility/subjects/s/versions?verbose=true", {"schema": record("b")}),
    ("POST", "/subjects/s/versions/1/tags", {"tagsToAdd": []}),
    ("GET", "/subjects/s/versions/1?format=resolved", None),
    ("GET", "/schemas/ids/1?findTags=true", None),
]


async def test_what_could_not_be_checked_may_be_asked_again(api: Api) -> None:
    await api.register("s", record("a"))
    checker, api.registry.checker = api.registry.checker, OutOfTime()
    before = len(await api.registries.log())
    for method, path, body in ASKED:
        assert refused(*await api.call(method, path, body)) == 503, path
    assert len(await api.registries.log()) == before
    api.registry.checker = checker
    for method, path, body in ASKED:
        assert (await api.call(method, path, body))[0] == 200, path


async def test_an_operation_says_that_it_may_not_be_checked(api: Api) -> None:
    document = (await api.get("/openapi.json"))[1]
    answers = document["paths"]["/subjects/{subject}/versions"]["post"]["responses"]
    name = answers["503"]["$ref"].rpartition("/")[2]
    assert "try again" in document["components"]["responses"][name]["description"]
