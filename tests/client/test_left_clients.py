"""A client that nobody closed and nothing refers to any more closes itself and leaves nothing."""

import gc
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from itertools import islice
from pathlib import Path

import pytest

import tms
from tests.objects_in_memory import objects_of
from tests.scale import scaled
from tests.servers.server_process import ServerProcess
from tests.waiting import wait_until
from tms.client.threads.bridge import Bridge

N = scaled(200, 20)
Connect = Callable[[], tms.Client]


def publishes(connect: Connect) -> None:
    connect().topic("t").publish(b"x")


def reads_half(connect: Connect) -> None:
    assert len(list(islice(connect().topic("t").poll(), 2))) == 2


def raises_within_a_transaction(connect: Connect) -> None:
    client = connect()
    with suppress(ZeroDivisionError), client.transaction() as tx:
        client.topic("t").publish(b"never", tx=tx)
        raise ZeroDivisionError


def leaves_a_transaction(connect: Connect) -> None:
    client = connect()
    context = client.transaction()
    client.topic("t").publish(b"never", tx=context.__enter__())


def keeps_the_topic(connect: Connect) -> None:
    topic = connect().topic("t")
    topic.publish(b"x")
    gc.collect()
    topic.publish(b"y")  # the client is not closed yet


def is_part_of_a_cycle(connect: Connect) -> None:
    ring: list[object] = [connect()]
    ring.append(ring)
    client = ring[0]
    assert isinstance(client, tms.Client)
    client.topics()


def in_a_thread(connect: Connect) -> None:
    thread = threading.Thread(target=publishes, args=(connect,))
    thread.start()
    thread.join()


LEFT = [
    publishes,
    reads_half,
    raises_within_a_transaction,
    leaves_a_transaction,
    keeps_the_topic,
    is_part_of_a_cycle,
    in_a_thread,
]


def are_gone() -> bool:
    """Whether no client is left, and no client's thread."""
    names = [thread.name for thread in threading.enumerate()]
    gc.collect()
    return not objects_of(Bridge) and not any(name.startswith("tms-client") for name in names)


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


@pytest.fixture
def connect(server: ServerProcess, namespace: str) -> Connect:
    """Connects to a namespace whose topic `t` has three messages."""
    with tms.connect(server.url, namespace=namespace) as client:
        client.topic("t").create()
        client.topic("t").publish([b"1", b"2", b"3"])
    return partial(tms.connect, server.url, namespace=namespace)


@pytest.mark.filterwarnings("ignore:a client was not closed:ResourceWarning")
@pytest.mark.parametrize("leave", LEFT, ids=lambda each: each.__name__)
def test_clients_that_are_left_leave_nothing(
    connect: Connect, leave: Callable[[Connect], None]
) -> None:
    leave(connect)
    wait_until(are_gone)
    before = descriptors()
    for _ in range(N):
        leave(connect)
    wait_until(are_gone)
    assert descriptors() <= before


def uses_and_leaves(connect: Connect) -> None:
    connect().topics()
    gc.collect()


def test_it_is_warned_of(connect: Connect) -> None:
    with pytest.warns(ResourceWarning, match="a client was not closed"):
        uses_and_leaves(connect)
    wait_until(are_gone)
