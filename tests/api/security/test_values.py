"""A caller's own topic reveals nothing about schemas that the caller may not read."""

import base64
import json
from typing import Any

import pytest

from tests.api.security.secured import Pair
from tests.waiting import turns
from tms.core.services.schemas import SchemaReference
from tms.core.services.transactions import StartRequest
from tms.core.values.caller import Caller
from tms.security.resources import Action
from tms.serdes.wire_format import start_of
from tms.wire.media_types import DECODED_TYPE

pytestmark = pytest.mark.anyio

HIDDEN = '{"type":"record","name":"n.Hidden","fields":[{"name":"secret","type":"int"}]}'
HOLDER = '{"type":"record","name":"n.Holder","fields":[{"name":"held","type":"n.Hidden"}]}'
GOOD, BAD = b"\x02", b"\x80"
TOPIC = "/v1/namespaces/ns/topics/mine"
WORDS = ("secret", "Hidden", "int")


class Topic:
    """A topic of ann's own, on which she may do everything."""

    def __init__(self, pair: Pair, headers: dict[str, str], where: str) -> None:
        self.pair = pair
        self.headers = {**headers, "content-type": "application/json"}
        self.http = pair.servers[where].http

    async def properties(self, **properties: str) -> None:
        put = f"{TOPIC}/properties"
        answer = await self.http.put(put, json=properties, headers=self.headers)
        assert answer.status_code == 200, answer.text

    async def publish(
        self, verb: str = "publish", pointer: int | None = None, **message: Any
    ) -> tuple[int, str]:
        body: dict[str, Any] = {"messages": [message]}
        if pointer is not None:
            body["transactionWritePointer"] = str(pointer)
        answer = await self.http.post(f"{TOPIC}/{verb}", json=body, headers=self.headers)
        return answer.status_code, answer.text

    async def publish_bytes(
        self, payload: bytes, verb: str = "publish", pointer: int | None = None
    ) -> tuple[int, str]:
        encoded = base64.b64encode(payload).decode()
        return await self.publish(verb, pointer, payload={"base64": encoded})

    async def told(self) -> list[dict[str, Any]]:
        headers = {**self.headers, "accept": DECODED_TYPE}
        answer = await self.http.post(f"{TOPIC}/poll", json={}, headers=headers)
        assert answer.status_code == 200, answer.text
        told: list[dict[str, Any]] = answer.json()
        return told


@pytest.fixture(params=["directly", "forwarded"])
async def topic(pair: Pair, request: pytest.FixtureRequest) -> Topic:
    """Create it, with the schemas 1, of `hidden`, and 2, of `held`, which refers to 1."""
    schemas = pair.services.schemas
    await schemas.register("hidden", HIDDEN)
    references = [SchemaReference("n.Hidden", "hidden", 1)]
    await schemas.register("held", HOLDER, references=references)
    owner = (Action.MANAGE, Action.PUBLISH, Action.CONSUME)
    await pair.allow("ann", *owner, name="mine")
    made = Topic(pair, await pair.token("ann"), request.param)
    assert (await made.http.put(TOPIC, headers=made.headers)).status_code == 200
    return made


def is_silent(text: str) -> bool:
    return not any(word in text for word in WORDS)


@pytest.mark.parametrize("number", [1, 2])
async def test_decode_is_for_who_may_read_the_schema(topic: Topic, number: int) -> None:
    assert (await topic.publish_bytes(start_of(number) + GOOD))[0] == 200
    assert (await topic.publish_bytes(start_of(number) + BAD))[0] == 200
    for properties in ({}, {"subject": "hidden"}, {"subject": "held", "key_subject": "hidden"}):
        await topic.properties(**properties)
        told = await topic.told()
        assert all("value" not in each and "may not read" in each["error"] for each in told), told
        assert is_silent(json.dumps(told))
    await topic.pair.allow("ann", Action.READ, name="held")
    assert all("value" not in each for each in await topic.told())
    await topic.pair.allow("ann", Action.READ, name="hidden")
    good, bad = await topic.told()
    assert good["value"] == ({"secret": 1} if number == 1 else {"held": {"secret": 1}})
    assert ("secret" if number == 1 else "held") in bad["error"]


@pytest.mark.parametrize("subject", ["hidden", "held", "alias"])
async def test_values_are_published_by_who_may_read_the_schema(topic: Topic, subject: str) -> None:
    pair = topic.pair
    await pair.allow("ann", Action.READ, Action.COMPATIBILITY, name="alias")
    schemas: Any = pair.services.schemas
    await schemas._registry.write(lambda known: set_alias(known.state))
    await topic.properties(subject=subject)
    for value in ({}, {"secret": "x"}, {"secret": 1}, {"held": {"secret": 1}}):
        status, text = await topic.publish(value=value)
        assert (status, json.loads(text)["error"]["code"]) == (403, "not_permitted"), text
        assert is_silent(text)
    await topic.properties(key_subject=subject, subject="open")
    await pair.services.schemas.register("open", '"null"')
    await pair.allow("ann", Action.READ, name="open")
    assert (await topic.publish(value=None, keyValue={}))[0] == 403
    await pair.allow("ann", Action.READ)
    await topic.properties(subject=subject)
    status, text = await topic.publish(value={"secret": "x", "held": {"secret": "x"}})
    assert (status, json.loads(text)["error"]["detail"]["reason"] != "") == (422, True)


def set_alias(state: Any) -> Any:
    from tms.registry.setting_commands import set_config  # noqa: PLC0415  the registry's extra

    return set_config(state, "alias", {"alias": "hidden"})


@pytest.mark.parametrize("check", ["id", "full"])
@pytest.mark.parametrize("where", [{"subject": "hidden"}, {"subject_strategy": "record"}])
async def test_a_check_reports_nothing_to_those_who_may_not_read(
    topic: Topic, check: str, where: dict[str, str]
) -> None:
    await topic.properties(schema_check=check, **where)
    services = topic.pair.services
    transaction = await services.transactions.start(StartRequest(), caller=Caller("ann"))
    pointer = transaction.write_pointer
    for payload in (start_of(1) + GOOD, start_of(1) + BAD, start_of(2) + GOOD):
        for verb, number in (("publish", None), ("publish", pointer), ("store", pointer)):
            status, text = await topic.publish_bytes(payload, verb, number)
            assert status == 403, text
            assert is_silent(text)
    await topic.pair.allow("ann", Action.WRITE)
    if "subject" in where:  # only readers see the name of a record
        status, text = await topic.publish_bytes(start_of(1) + GOOD)
        assert status == 200, text
        status, text = await topic.publish_bytes(start_of(1) + BAD)
        assert (status, is_silent(text)) == (200 if check == "id" else 422, True), text
    await topic.pair.allow("ann", Action.READ)
    if "subject" in where and check == "full":
        status, text = await topic.publish_bytes(start_of(1) + BAD)
        assert (status, "secret" in text) == (422, True), text


async def test_a_rule_that_is_revoked_counts_at_once(topic: Topic) -> None:
    pair = topic.pair
    assert (await topic.publish_bytes(start_of(1) + GOOD))[0] == 200
    rule = await pair.allow("ann", Action.READ)
    assert (await topic.told())[0]["value"] == {"secret": 1}
    await pair.disallow(rule)
    await turns()
    assert "value" not in (await topic.told())[0]
