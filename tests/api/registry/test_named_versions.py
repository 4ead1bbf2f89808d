"""A registration that names its version, as in the tests of Confluent's own registry."""

from typing import Any

import pytest

from tests.api.registry.live import Api

pytestmark = pytest.mark.anyio

TEXT = '{"type":"object","properties":{"e":{"type":"string","enum":["YES","NO"]}}}'
NUMBER = "confluent:version"


async def test_a_known_text_is_registered_again_by_the_next_version(api: Api) -> None:
    async def registered(**said: Any) -> Any:
        told = await api.register("s", TEXT, schemaType="JSON", **said)
        return told if isinstance(told, int) else told["id"]

    async def found(**said: Any) -> Any:
        body = {"schema": TEXT, "schemaType": "JSON", **said}
        return (await api.call("POST", "/subjects/s", body))[1]["version"]

    async def numbered(version: int) -> Any:
        told = (await api.get(f"/subjects/s/versions/{version}"))[1]
        return told.get("metadata", {}).get("properties", {}).get(NUMBER)

    def metadata(**properties: str) -> dict[str, Any]:
        return {"metadata": {"properties": properties}}

    def with_number(number: int) -> dict[str, Any]:
        return {"metadata": {"properties": {NUMBER: str(number)}}}

    assert await registered() == 1
    assert await registered(version=-1) == 1
    assert await numbered(1) is None
    assert await registered(version=2) == 2
    assert await registered(version=-1) == 2
    assert await numbered(2) == "2"
    assert [await found(), await found(**with_number(1)), await found(**with_number(2))] == [
        1,
        1,
        2,
    ]
    assert (await api.call("DELETE", "/subjects/s/versions/1"))[0] == 200
    assert await found() == 2
    assert await registered() == 2
    assert await registered(version=3) == 3
    assert await registered(version=-1) == 3
    assert await registered(version=3) == 42201
    assert await registered(version=9) == 42201
    assert await registered(version=4) == 4
    assert await found() == 4
    assert await registered(**with_number(-1)) == 5
    assert await numbered(5) == "5"
    assert await registered(**with_number(2)) == 2
    assert await registered(**with_number(3)) == 3
    assert await registered(**with_number(0)) == 6
    assert await numbered(6) == "6"
    assert await registered(metadata={}) == 6
    assert await registered(**metadata(owner="me")) == 7
    assert await numbered(7) is None
    assert await found(**metadata(owner="me")) == 7
