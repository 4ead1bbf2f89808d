"""A text without references may be a schema that was registered with some."""

import json
from typing import Any

import pytest

from tests.api.registry.live import Api, refused

pytestmark = pytest.mark.anyio

WRITTEN_OUT = (
    '{"name":"n.U","type":"record","fields":[{"name":"f","type":{"type":"record","name":"F",'
    '"fields":[{"name":"e","type":{"type":"enum","name":"E","symbols":["A"]}}]}},'
    '{"name":"g","type":["null","n.F"]}]}'
)


@pytest.mark.parametrize("query", ["", "?normalize=true"])
async def test_a_text_with_its_references_written_out_is_the_version_with_references(
    api: Api, query: str
) -> None:
    """Java's generated classes send it."""
    await api.register("e", '{"type":"enum","name":"n.E","symbols":["A"]}')
    to_enum = [{"name": "n.E", "subject": "e", "version": 1}]
    fields: list[Any] = [{"name": "e", "type": "E"}]
    text = json.dumps({"type": "record", "name": "n.F", "fields": fields})
    await api.register("f", text, references=to_enum)
    fields = [{"name": "f", "type": "F"}, {"name": "g", "type": ["null", "F"]}]
    user = json.dumps({"type": "record", "name": "n.U", "fields": fields})
    to_record = [{"name": "n.F", "subject": "f", "version": 1}]
    told = await api.register("u", user, references=to_record)
    assert (told["id"], told["version"]) == (3, 1)

    again = await api.register("u", WRITTEN_OUT, query)
    assert (again["id"], again["version"]) == (3, 1)
    assert again["references"] == told["references"]
    status, found = await api.call("POST", f"/subjects/u{query}", {"schema": WRITTEN_OUT})
    assert (status, found["id"], found["version"]) == (200, 3, 1)
    other = WRITTEN_OUT.replace('"A"', '"A","B"')
    assert refused(*await api.call("POST", "/subjects/u", {"schema": other})) == 40403
    assert (await api.register("u", other))["version"] == 2
    # What has that very text comes first, and elsewhere it is another schema.
    elsewhere = await api.register("v", WRITTEN_OUT)
    assert elsewhere["id"] == 5
    assert (await api.register("u", WRITTEN_OUT))["id"] == 3
