"""Compatibility and modes, as Confluent's registry answers."""

import pytest

from tests.api.registry.live import Api, refused
from tests.registry.registries import fixed, record

pytestmark = pytest.mark.anyio

WITHOUT_DEFAULT = '{"type":"record","name":"R","fields":[{"name":"z","type":"int"}]}'


async def test_the_levels(api: Api) -> None:
    assert await api.get("/config") == (200, {"compatibilityLevel": "BACKWARD"})
    assert refused(*await api.get("/config/s")) == 40408
    assert await api.get("/config/s?defaultToGlobal=true") == (
        200,
        {"compatibilityLevel": "BACKWARD"},
    )
    assert await api.call("PUT", "/config", {"compatibility": "full"}) == (
        200,
        {"compatibility": "FULL"},
    )
    assert await api.call("PUT", "/config", {}) == (200, {"compatibility": "FULL"})
    assert await api.call("PUT", "/config/s", {"compatibility": "NONE"}) == (
        200,
        {"compatibility": "NONE"},
    )
    assert await api.get("/config/s") == (200, {"compatibilityLevel": "NONE"})
    for wrong in ({"compatibility": "x"}, {"compatibility": ""}):
        assert refused(*await api.call("PUT", "/config/s", wrong)) == 42203
    assert refused(*await api.call("PUT", "/config/__GLOBAL", {"compatibility": "NONE"})) == 42208
    assert refused(*await api.call("PUT", "/config", {"compatibility": 1})) == 400
    assert await api.call("DELETE", "/config/s") == (200, {"compatibilityLevel": "NONE"})
    assert refused(*await api.call("DELETE", "/config/s")) == 40401
    assert await api.call("DELETE", "/config") == (200, {"compatibilityLevel": "FULL"})
    assert await api.get("/config") == (200, {"compatibilityLevel": "BACKWARD"})
    assert (await api.call("DELETE", "/config"))[0] == 200


async def test_a_level_is_cleared_by_null(api: Api) -> None:
    await api.call("PUT", "/config/s", {"compatibility": "FULL", "normalize": True})
    assert await api.call("PUT", "/config/s", {"compatibility": None}) == (
        200,
        {"normalize": True},
    )
    assert await api.get("/config/s") == (
        200,
        {"compatibilityLevel": "BACKWARD", "normalize": True},
    )


async def test_a_subject_is_read_by_its_alias(api: Api) -> None:
    await api.register("s", record("a"))
    assert await api.call("PUT", "/config/al", {"alias": "s"}) == (200, {"alias": "s"})
    assert await api.get("/config/al") == (
        200,
        {"compatibilityLevel": "BACKWARD", "alias": "s"},
    )
    for path in ("versions/1", "versions/latest"):
        assert (await api.get(f"/subjects/al/{path}"))[1]["subject"] == "s"
    assert await api.get("/subjects/al/versions") == (200, [1])
    body = {"schema": record("a")}
    assert (await api.call("POST", "/subjects/al", body))[1]["subject"] == "s"
    path = "/compatibility/subjects/al/versions"
    assert await api.call("POST", path, {"schema": fixed(1)}) == (200, {"is_compatible": False})
    assert (await api.get("/schemas/ids/1?subject=al"))[1]["subject"] == "s"
    assert await api.get("/subjects") == (200, ["s"])
    assert refused(*await api.call("DELETE", "/subjects/al")) == 40401
    assert refused(*await api.call("PUT", "/config/al", {"alias": "__GLOBAL"})) == 42208
    assert await api.call("PUT", "/config/al", {"alias": None}) == (200, {})
    assert refused(*await api.get("/subjects/al/versions")) == 40401


async def test_a_schema_that_does_not_fit_is_refused(api: Api) -> None:
    await api.register("s", record("a"))
    status, told = await api.call("POST", "/subjects/s/versions", {"schema": WITHOUT_DEFAULT})
    assert refused(status, told) == 409
    for part in (
        "READER_FIELD_MISSING_DEFAULT_VALUE",
        "{oldSchemaVersion: 1}",
        "{validateFields: 'false', compatibility: 'BACKWARD'}",
    ):
        assert part in told["message"]
    assert await api.get("/subjects/s/versions") == (200, [1])
    await api.call("PUT", "/config/s", {"compatibility": "NONE"})
    assert (await api.register("s", WITHOUT_DEFAULT))["version"] == 2


@pytest.mark.parametrize(
    ("level", "fits_latest_only"),
    [("BACKWARD", True), ("BACKWARD_TRANSITIVE", False), ("FULL_TRANSITIVE", False)],
)
async def test_a_transitive_level_asks_all_versions(
    api: Api, level: str, *, fits_latest_only: bool
) -> None:
    await api.call("PUT", "/config/s", {"compatibility": "NONE"})
    await api.register("s", fixed(1))
    await api.register("s", record("a"))
    await api.call("PUT", "/config/s", {"compatibility": level})
    told = await api.register("s", record("a", "b"))
    assert (told != 409) == fits_latest_only


async def test_a_check_says_why(api: Api) -> None:
    await api.register("s", record("a"))
    path = "/compatibility/subjects/s/versions"
    body = {"schema": WITHOUT_DEFAULT}
    for where in ("", "/1", "/latest"):
        assert await api.call("POST", path + where, body) == (200, {"is_compatible": False})
        status, told = await api.call("POST", f"{path}{where}?verbose=true", body)
        assert (status, told["is_compatible"]) == (200, False)
        assert "READER_FIELD_MISSING_DEFAULT_VALUE" in told["messages"][0]
        fitting = {"schema": record("a", "b")}
        assert await api.call("POST", f"{path}{where}?verbose=true", fitting) == (
            200,
            {"is_compatible": True, "messages": []},
        )
    assert refused(*await api.call("POST", f"{path}/7", body)) == 40402
    assert refused(*await api.call("POST", f"{path}/x", body)) == 42202
    assert refused(*await api.call("POST", path, {"schema": "{"})) == 42201
    status, told = await api.call("POST", f"{path}?verbose=true", {"schema": "{"})
    assert (status, told["is_compatible"]) == (200, False)
    unknown = "/compatibility/subjects/q/versions"
    assert await api.call("POST", unknown, body) == (200, {"is_compatible": True})
    assert await api.call("POST", f"{unknown}/latest", body) == (200, {"is_compatible": True})
    assert refused(*await api.call("POST", f"{unknown}/1", body)) == 40402


async def test_a_read_only_registry_is_read(api: Api) -> None:
    await api.register("s", record("a"))
    assert await api.get("/mode") == (200, {"mode": "READWRITE"})
    assert await api.call("PUT", "/mode", {"mode": "readonly"}) == (200, {"mode": "readonly"})
    assert await api.get("/mode") == (200, {"mode": "READONLY"})
    assert (await api.register("s", record("a")))["id"] == 1
    assert await api.register("s", record("b")) == 42205
    assert refused(*await api.call("DELETE", "/subjects/s")) == 42205
    assert refused(*await api.call("PUT", "/config/s", {"compatibility": "NONE"})) == 42205
    assert refused(*await api.get("/mode/s")) == 40409
    assert await api.call("PUT", "/mode/s", {"mode": "READWRITE"}) == (200, {"mode": "READWRITE"})
    assert (await api.register("s", record("b")))["id"] == 2
    await api.call("PUT", "/mode", {"mode": "READONLY_OVERRIDE"})
    assert await api.register("s", record("c")) == 42205
    assert await api.get("/mode/s?defaultToGlobal=true") == (200, {"mode": "READONLY_OVERRIDE"})
    assert await api.call("DELETE", "/mode") == (200, {"mode": "READONLY_OVERRIDE"})
    assert await api.call("DELETE", "/mode/s") == (200, {"mode": "READWRITE"})
    assert refused(*await api.call("DELETE", "/mode/s")) == 40401
    for wrong in ({"mode": "x"}, {}, {"mode": None}):
        assert refused(*await api.call("PUT", "/mode", wrong)) == 42204


async def test_importing(api: Api) -> None:
    await api.register("s", record("a"))
    assert refused(*await api.call("PUT", "/mode", {"mode": "IMPORT"})) == 42205
    assert (await api.call("PUT", "/mode/t", {"mode": "IMPORT"}))[0] == 200
    assert await api.register("t", record("b")) == 42205
    told = await api.register("t", record("b"), id=500, version=7)
    assert (told["id"], told["version"]) == (500, 7)
    assert (await api.register("t", record("b"), id=500))["version"] == 7
    assert (await api.register("t", record("b"), id=501))["version"] == 8
    assert await api.register("t", record("c"), id=500) == 42205
    assert await api.register("t", record("c"), id=502, version=7) == 42205
    assert (await api.call("PUT", "/mode?force=true", {"mode": "IMPORT"}))[0] == 200
    await api.call("DELETE", "/mode")
    assert (await api.register("u", record("z")))["id"] == 502
