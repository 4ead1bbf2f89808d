"""Transactions over connections that break: before a request arrives, or after it was carried out.

The server is real; the client reaches it through a proxy that drops what the test selects.
"""

import re
from collections.abc import Iterator

import pytest

import tms
from tests.client.participant import Noting
from tests.servers.proxy import Loss, Proxy
from tests.servers.server_process import ServerProcess

each_loss = pytest.mark.parametrize("loss", ["request", "answer"])


class HttpProxy(Proxy):
    """Records the path of each request, including those it loses."""

    def __init__(self, port: int) -> None:
        self.paths: list[str] = []
        super().__init__(port)

    @property
    def url(self) -> str:
        return f"http://{self.address}"

    def heard(self, request: bytes) -> None:
        head = re.match(rb"[A-Z]+ (\S+) HTTP/1.1\r\n", request)
        if head:  # otherwise it is a piece of a body
            self.paths.append(head[1].decode())


@pytest.fixture
def proxy(server: ServerProcess) -> Iterator[HttpProxy]:
    with HttpProxy(server.port) as proxy:
        yield proxy


@pytest.fixture
def client(proxy: HttpProxy, namespace: str) -> Iterator[tms.Client]:
    with tms.connect(proxy.url, namespace) as client:
        yield client


def committed(topic: tms.Topic) -> list[bytes]:
    return [message.payload for message in topic.poll(committed=True)]


def verbs(proxy: HttpProxy) -> list[str]:
    """Return the last parts of the requests' paths that are about transactions."""
    paths = [path.partition("?")[0] for path in proxy.paths if "/v1/transactions" in path]
    return [path.rpartition("/")[2] for path in paths]


@each_loss
@pytest.mark.parametrize("times", [1, 2])
def test_a_commit_is_settled(
    client: tms.Client, topic: tms.Topic, proxy: HttpProxy, loss: Loss, times: int
) -> None:
    participant = Noting()
    proxy.lose(loss, b"/commit ", times=times)
    with client.transaction(participants=[participant]) as tx:
        topic.publish(b"once", tx)

    assert tx.is_committed
    assert participant.calls[-1] == "one.post_commit"
    assert committed(topic) == [b"once"]
    transaction_id = str(tx.transaction_id)
    asked = [transaction_id, "commit"] * times if loss == "request" else [transaction_id]
    assert verbs(proxy) == ["transactions", "commit", *asked]


def test_a_lost_commit_of_a_transaction_that_ended_in_the_meantime_is_rolled_back(
    client: tms.Client, topic: tms.Topic, proxy: HttpProxy, server: ServerProcess
) -> None:
    class Ending(Noting):
        def persist(self) -> None:
            with tms.connect(server.url) as operator:
                operator.transactions.invalidate(tx.transaction_id)

    participant = Noting()
    proxy.lose("request", b"/commit ")
    tx = client.transaction(participants=[participant, Ending()])
    with pytest.raises(tms.TransactionNotInProgress), tx:
        pass

    assert participant.calls[-1] == "one.rollback"


def test_a_server_that_stays_away_leaves_the_outcome_open(
    proxy: HttpProxy, server: ServerProcess, namespace: str
) -> None:
    """No participant is rolled back: the commit may have been carried out, as it was here."""
    participant = Noting()
    with tms.connect(proxy.url, namespace, retry_for_s=0) as client:
        client.topic("orders").create()
        tx = client.transaction(participants=[participant])
        with pytest.raises(tms.OutcomeUnknown) as unknown, tx:  # noqa: PT012
            client.topic("orders").publish(b"one", tx)
            proxy.lose("answer", b"/commit ")
            proxy.lose("request", b"?codec=false ", times=1000)

    assert unknown.value.detail["transaction_id"] == tx.transaction_id
    assert participant.calls == ["one.start", "one.changes", "one.persist"]
    assert not tx.is_committed
    with tms.connect(server.url, namespace) as client:
        assert client.transactions.info(tx.transaction_id).status == "committed"
        assert committed(client.topic("orders")) == [b"one"]


@each_loss
def test_can_commit_is_repeated(
    client: tms.Client, topic: tms.Topic, proxy: HttpProxy, loss: Loss
) -> None:
    proxy.lose(loss, b"/can-commit ")
    with client.transaction(participants=[Noting(keys=[b"k"])]) as tx:
        topic.publish(b"one", tx)

    assert committed(topic) == [b"one"]


@each_loss
@pytest.mark.parametrize("verb", ["rollback", "abort"])
def test_a_rollback_is_repeated(
    client: tms.Client, topic: tms.Topic, proxy: HttpProxy, loss: Loss, verb: str
) -> None:
    proxy.lose(loss, f"/{verb} ".encode())
    with client.transaction() as tx:
        topic.publish(b"one", tx)
        tx.abort()

    assert client.transactions.info(tx.transaction_id).status == "aborted"
    assert committed(topic) == []


@each_loss
def test_an_invalidation_is_repeated(client: tms.Client, proxy: HttpProxy, loss: Loss) -> None:
    proxy.lose(loss, b"/invalidate ")
    participant = Noting(fails_at={"rollback"})
    with pytest.raises(LookupError, match="body") as raised:  # noqa: SIM117
        with client.transaction(participants=[participant]) as tx:
            raise LookupError("body")

    assert len(raised.value.__notes__) == 1
    assert client.transactions.info(tx.transaction_id).status == "invalid"


@each_loss
def test_a_start_is_repeated(client: tms.Client, proxy: HttpProxy, loss: Loss) -> None:
    proxy.lose(loss, b"/transactions?")
    with client.transaction():
        pass

    assert verbs(proxy)[:2] == ["transactions", "transactions"]


@each_loss
@pytest.mark.parametrize("if_open", ["join", "fence"])
def test_an_owners_start_takes_the_place_of_the_lost_one(
    client: tms.Client, topic: tms.Topic, proxy: HttpProxy, loss: Loss, if_open: str
) -> None:
    proxy.lose(loss, b"/transactions?")
    with client.transaction(owner=topic.namespace, sequence=1, if_open=tms.IfOpen(if_open)) as tx:
        topic.publish(b"one", tx)

    assert committed(topic) == [b"one"]


def test_an_owners_start_that_must_not_take_another_place_is_not_repeated(
    client: tms.Client, proxy: HttpProxy, namespace: str
) -> None:
    proxy.lose("answer", b"/transactions?")
    with pytest.raises(tms.OutcomeUnknown), client.transaction(owner=namespace):
        pass


@each_loss
def test_a_checkpoint_is_repeated(
    client: tms.Client, topic: tms.Topic, proxy: HttpProxy, loss: Loss
) -> None:
    proxy.lose(loss, b"/checkpoint ")
    with client.transaction() as tx:
        topic.publish(b"one", tx)
        tx.checkpoint()
        topic.publish(b"two", tx)

    assert committed(topic) == [b"one", b"two"]


@each_loss
@pytest.mark.parametrize("buffer", [False, True])
def test_a_publish_in_doubt_dooms_the_transaction(
    client: tms.Client, topic: tms.Topic, proxy: HttpProxy, loss: Loss, *, buffer: bool
) -> None:
    """Even if the body continues: nobody knows whether the message was stored, and only once."""
    participant = Noting()
    proxy.lose(loss, b"/store " if buffer else b"/publish?")
    tx = client.transaction(participants=[participant])
    with pytest.raises(tms.OutcomeUnknown), tx:  # noqa: PT012
        with pytest.raises(tms.OutcomeUnknown):
            topic.publish(b"one", tx, buffer=buffer)
        topic.publish(b"two", tx)

    assert participant.calls == ["one.start", "one.rollback"]
    assert committed(topic) == []
    topic.publish(b"after")
    assert committed(topic) == [b"after"]


@each_loss
def test_many_topics_with_a_sequence_are_published_to_once(
    client: tms.Client, topic: tms.Topic, proxy: HttpProxy, loss: Loss, namespace: str
) -> None:
    proxy.lose(loss, b"/publish ")
    published = client.publish_all({"orders": b"one"}, owner=namespace, sequence=1)

    assert published.is_duplicate == (loss == "answer")
    assert committed(topic) == [b"one"]


@each_loss
def test_many_topics_without_one_are_left_to_the_caller(
    client: tms.Client, topic: tms.Topic, proxy: HttpProxy, loss: Loss
) -> None:
    proxy.lose(loss, b"/publish ")
    with pytest.raises(tms.OutcomeUnknown):
        client.publish_all({"orders": b"one"})

    assert committed(topic) == ([b"one"] if loss == "answer" else [])


def test_a_move_in_doubt_is_left_to_the_caller(topic: tms.Topic, proxy: HttpProxy) -> None:
    topic.publish([b"one", b"two"])
    billing = topic.subscription("billing")
    billing.create()
    first = next(billing.poll())
    proxy.lose("answer", b"/advance ")
    with pytest.raises(tms.OutcomeUnknown):
        billing.advance(first)

    assert billing.position().after == first.id


@each_loss
def test_a_move_with_a_lost_commit_is_made_once(
    client: tms.Client, topic: tms.Topic, proxy: HttpProxy, loss: Loss
) -> None:
    topic.publish([b"one", b"two"])
    billing = topic.subscription("billing")
    created = billing.create()
    proxy.lose(loss, b"/commit ")
    with client.transaction() as tx:
        billing.advance(next(billing.poll(tx=tx)), tx)

    assert billing.position().version == created.version + 1
