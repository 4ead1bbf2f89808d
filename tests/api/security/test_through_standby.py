"""A request through a follower has its caller's principal at the leader."""

import json

import httpx
import pytest

from tests.api.rest import TOPIC, refusal
from tests.api.security.secured import Pair, Server
from tests.registry.registries import Registries, fixed
from tms.client.remote.access import Access
from tms.client.remote.remote_services import RemoteServices
from tms.core.errors import TopicNotFound
from tms.core.values.caller import REGISTRY, Caller
from tms.core.values.topic import TopicId
from tms.registry.registration import Registered
from tms.security.forwards import Sealer
from tms.security.resources import Action
from tms.server.security_part import Signing

pytestmark = pytest.mark.anyio

T = TopicId("ns", "t")
OF_ANOTHER = (403, "transaction_of_another")


async def started(server: Server, headers: dict[str, str], **asked: object) -> int:
    path = "/v1/transactions?codec=false"
    answer = await server.http.post(path, json=asked, headers=headers)
    assert answer.status_code == 200, answer.text
    return int(answer.json()["transaction_id"])


@pytest.mark.parametrize("way", ["directly", "forwarded"])
async def test_a_transaction_is_its_principals_however_it_came(pair: Pair, way: str) -> None:
    await pair.services.messaging.create_topic(T)
    ann, tom, any_ = [await pair.token(name) for name in ("ann", "tom", "any")]
    for who in ("ann", "tom", "any"):
        also = Action.TRANSACT_ANY if who == "any" else Action.TRANSACT
        await pair.allow(who, Action.TRANSACT, also)
        await pair.allow(who, Action.PUBLISH, Action.CONSUME)
    server, other = pair.servers[way], pair.leader
    transaction = await started(server, ann, owner="job", sequence=0)

    async def end(headers: dict[str, str], how: str = "commit", of: int = 0) -> httpx.Response:
        path = f"/v1/transactions/{of or transaction}/{how}"
        body: dict[str, list[str]] = {"changes": []} if how == "can-commit" else {}
        return await server.http.post(path, json=body, headers=headers)

    written = {"transactionWritePointer": str(transaction), "messages": ["x"]}
    for how in ("commit", "can-commit", "abort", "invalidate", "checkpoint"):
        assert refusal(await end(tom, how)) == OF_ANOTHER, how
    assert (
        refusal(await server.http.post(f"{TOPIC}/publish", json=written, headers=tom)) == OF_ANOTHER
    )
    taken = {"owner": "job", "sequence": 1}
    assert refusal(await other.http.post("/v1/transactions", json=taken, headers=tom)) == OF_ANOTHER
    assert (await other.http.post(f"{TOPIC}/publish", json=written, headers=ann)).status_code == 200
    assert (await end(ann)).status_code == 200

    for headers in (any_, pair.root):
        another = await started(server, ann)
        assert (await end(headers, "abort", another)).status_code == 200


async def test_several_topics_are_published_to_if_all_may_be(pair: Pair) -> None:
    for topic in ("t", "u"):
        await pair.services.messaging.create_topic(TopicId("ns", topic))
    ann = await pair.token("ann")
    await pair.allow("ann", Action.PUBLISH, Action.CONSUME, name="t")
    for server in pair.servers.values():
        for topics in ({"t": ["x"], "u": ["x"]}, {"u": ["x"], "t": ["x"]}, {"u": ["x"]}):
            sent = await server.http.post(
                "/v1/namespaces/ns/publish", json={"topics": topics}, headers=ann
            )
            assert sent.status_code == 404
        for named in (["t", "u"], ["u"]):
            asked = await server.http.post(
                "/v1/namespaces/ns/positions", json={"topics": named}, headers=ann
            )
            assert asked.status_code == 404
    assert (await pair.leader.http.post(f"{TOPIC}/poll", json={}, headers=ann)).json() == []


async def test_the_audit_reports_who_asked_and_which_server_passed_it_on(pair: Pair) -> None:
    ann = await pair.token("ann")
    made = await pair.standby.http.put(TOPIC, headers=ann)
    assert made.status_code == 404
    await pair.allow("ann", Action.MANAGE)
    for _ in range(3):
        await pair.standby.http.put(TOPIC, headers=ann)
    told = [json.loads(line) for line in pair.leader.audited.lines]
    of_ann = [each for each in told if each["principal"] == "ann"]
    effects = [(each["action"], each["effect"], each["via"]) for each in of_ann]
    assert effects == [("manage", "deny", "7"), *[("manage", "allow", "7")] * 3]


@pytest.fixture
def registries(pair: Pair) -> Registries:
    return Registries(pair.services, pair.clock)


async def test_a_server_reads_and_writes_the_log_of_schemas_as_itself(
    pair: Pair, registries: Registries
) -> None:
    sealer = Sealer(pair.standby.keys, "7", pair.clock)
    signing = Signing(sealer, pair.leader.url, "")
    remote = RemoteServices(
        pair.leader.url,
        timeout_s=5,
        retry_for_s=0,
        compress=False,
        access=Access(None, None, signing, allow_plaintext=True),
    )
    called = registries.make(messaging=remote.messaging)
    assert isinstance(await called.register("s", fixed(1)), Registered)
    assert await called.versions("s") == [1]
    with pytest.raises(TopicNotFound):
        await remote.messaging.publish(T, [b"x"], caller=Caller(part=REGISTRY))
    await remote.close()
