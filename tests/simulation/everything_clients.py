"""The synchronous client in `everything`: finalizers that the collector runs, and signal handlers.

Half-read iterators are left in cycles, and the garbage collector ends them in the calling thread or
in that of the event loop. A signal arrives at any moment of a call, and its handler publishes or
closes the client. None of this may hang; the model records these messages like all others.
"""

import gc
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import tms
from tests.simulation.everything_acts import LOST, Acts, Killed, now_ms
from tests.simulation.everything_model import Difference, Entry, Publish, TopicModel
from tests.waiting import WAIT_S_MAX, until
from tms.client.client import Client
from tms.core.errors import OutcomeUnknown

AGAIN_S = 1.0
SIGNAL_S = 0.02
"""The signal comes within this number of seconds."""
CALLS = 4
"""At least this number of calls is made in the meantime."""
LIVES_S = 5
"""A topic whose messages expire sooner may be empty by the time it is followed."""
TCP = Path("/proc/net/tcp")
CLOSE_WAIT = "08"
"""The state of a connection in `TCP` whose other side is closed: see tcp_states.h of Linux."""


class ClientActs:
    """The work with successive clients, in the main thread."""

    def __init__(self, acts: Acts) -> None:
        self.acts = acts
        self.url = ""
        self._client: Client | None = None

    @property
    def client(self) -> Client:
        if self._client is None:
            self._client = tms.connect(self.url, retry_for_s=0)
        return self._client

    def close(self) -> None:
        """Close the client, if there is one; the next act makes a new one."""
        client, self._client = self._client, None
        if client is not None:
            with _bounded("closing"):
                client.close()

    async def collect_half_read(self) -> None:
        """Leave iterators half-read in cycles; the client continues when they are collected."""
        topic = self.acts.existing()
        if topic is None:
            return
        with _bounded("an iterator that is collected"):
            self.publish(topic)
            for _ in range(self.acts.chance.randint(1, 3)):
                is_followed = self.acts.chance.random() < 0.5 and topic.ttl_s >= LIVES_S
                given = self.client.topic(topic.name)
                half_read = given.follow() if is_followed else given.poll()
                next(half_read, None)
                cycle: list[Any] = [half_read]
                cycle.append(cycle)
                del half_read, cycle
            if self.acts.chance.random() < 0.5:
                self.client._bridge.call(_collect)
            else:
                gc.collect()
            self.publish(topic)

    async def publish_in_a_handler(self) -> None:
        """Publish to one topic, and to another from a signal handler."""
        topics = [each for each in self.acts.topics.values() if each.exists]
        if len(topics) < 2:
            return
        topic, other = self.acts.chance.sample(topics, 2)

        def handle() -> None:
            try:
                self.publish(other)
                self.acts.counts["published in a handler"] += 1
            except RuntimeError as error:  # it has interrupted the first call
                _check_advice(error)

        with _bounded("a handler that publishes"), _signalled(self._delay_s(), handle) as is_over:
            for _ in range(CALLS):
                self.publish(topic)
            while not is_over():
                self.publish(topic)

    async def close_in_a_handler(self) -> None:
        """Publish to a topic, and close the client in a signal handler."""
        topic = self.acts.existing()
        if topic is None:
            return
        client = self.client
        closed: list[bool] = []

        def handle() -> None:
            try:
                client.close()
                closed.append(True)
            except RuntimeError as error:
                _check_advice(error)

        with _bounded("a handler that closes"), _signalled(self._delay_s(), handle) as is_over:
            try:
                while not is_over():
                    self.publish(topic)
            except (OutcomeUnknown, RuntimeError):
                if not closed and not is_over():
                    raise
                self.acts.counts["closed in a handler"] += 1
        self.close()
        await until(self._is_read, "the server reads the interrupted request before any other")

    def _is_read(self) -> bool:
        """Whether the server has read, and closed, the connections that clients have closed."""
        port = f":{urlsplit(self.url).port:04X}"
        rows = [row.split() for row in TCP.read_text().splitlines()]
        return not any(row[1].endswith(port) and row[3] == CLOSE_WAIT for row in rows)

    def _delay_s(self) -> float:
        return self.acts.chance.uniform(0, SIGNAL_S)

    def publish(self, topic: TopicModel) -> None:
        """Publish one message, and record it in the model."""
        [payload] = self.acts.payloads(1)
        one, began = Publish(is_sure=False), now_ms()
        try:
            self.client.topic(topic.name).publish(payload)
            one.is_sure = True
        except LOST as error:
            if isinstance(error, OutcomeUnknown) and error.detail.get("reason") == _CLOSED:
                raise
            raise Killed(str(error)) from error
        finally:
            self.acts.added(topic, [Entry(payload, one, (began, began))], began)


_CLOSED = "the client was closed in the meantime"


async def _collect() -> None:
    gc.collect()


def _check_advice(error: RuntimeError) -> None:
    """Check that the error says what to do instead."""
    if "set a flag" not in str(error):
        raise Difference(f"in a signal handler: {error}") from error


@contextmanager
def _bounded(what: str) -> Iterator[None]:
    """Raise `Difference` instead of waiting for ever.

    It is raised repeatedly, and once more at the end, because an exception raised during garbage
    collection is lost.
    """
    hanging: list[bool] = []

    def hangs(*_: object) -> None:
        hanging.append(True)
        raise Difference(f"{what} hangs")

    before = signal.signal(signal.SIGALRM, hangs)
    signal.setitimer(signal.ITIMER_REAL, WAIT_S_MAX, AGAIN_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    if hanging:
        raise Difference(f"{what} hangs")


@contextmanager
def _signalled(after_s: float, handle: Callable[[], None]) -> Iterator[Callable[[], bool]]:
    """Send one signal that calls the handler; yield whether the handler has returned."""
    over: list[bool] = []

    def handled(*_: object) -> None:
        try:
            handle()
        finally:
            over.append(True)

    before = signal.signal(signal.SIGUSR1, handled)
    main = threading.main_thread().ident
    timer = threading.Timer(after_s, signal.pthread_kill, (main, signal.SIGUSR1))
    timer.start()
    try:
        yield lambda: bool(over)
    finally:
        timer.join()
        signal.signal(signal.SIGUSR1, before)
