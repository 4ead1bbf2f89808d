"""A transport for Celery (kombu): each queue is a topic with a group of workers.

    import tms.contrib.celery                      # makes tms:// known
    app = Celery(broker="tms://127.0.0.1:11015")

A task is leased to the worker that got it, for the transport option `lease_s`. It runs again on
another worker if it was not acknowledged by then, so a lease must be longer than the longest task;
set `task_acks_late` to acknowledge a task after it has run. Other options: `url`, for https, and
`connection`, the arguments of `tms.connect`, such as `token`. There are no fanout exchanges, so no
remote control and no events. Needs the extra `celery`.
"""

import re
from contextlib import suppress
from hashlib import sha256
from queue import Empty
from typing import Any, Final
from uuid import uuid4

from kombu.transport import TRANSPORT_ALIASES, virtual
from kombu.utils.json import dumps, loads

import tms
from tms.client import GroupMessage, Topic, TopicGroup
from tms.core.errors import InvalidRequest, TmsError, TopicNotFound

_GROUP: Final = "celery"
_LEASE_S: Final = 1800
_WAIT_S: Final = 1.0
"""How long to wait for a task at a time, in all queues together."""
_CLOSE_S: Final = 5
_REFUSED_CHARS = re.compile(r"[^A-Za-z0-9_-]")


def topic_of(queue: str) -> str:
    """Return the topic of a queue: its name, unless that has characters that a topic's has not."""
    name = _REFUSED_CHARS.sub("_", queue)
    return name if name == queue else f"{name}-{sha256(queue.encode()).hexdigest()[:8]}"


class Channel(virtual.Channel):
    """The queues as one connection uses them."""

    do_restore = False  # leases do that

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._taken: dict[str, GroupMessage] = {}
        self._known: set[str] = set()

    @property
    def _options(self) -> dict[str, Any]:
        options: dict[str, Any] = self.connection.client.transport_options
        return options

    def _topic(self, queue: str) -> Topic:
        client: tms.Client = self.connection.tms_client
        return client.topic(topic_of(queue))

    def _group(self, queue: str) -> TopicGroup:
        return self._topic(queue).group(_GROUP)

    def _new_queue(self, queue: str, **_: Any) -> None:
        if queue not in self._known:
            self._topic(queue).create(exist_ok=True)
            self._group(queue).create()
            self._known.add(queue)

    def _has_queue(self, queue: str, **_: Any) -> bool:
        try:
            self._topic(queue).properties()
        except TopicNotFound:
            return False
        return True

    def _put(self, queue: str, message: dict[str, Any], **_: Any) -> None:
        self._new_queue(queue)
        self._topic(queue).publish(dumps(message).encode())

    def _get(self, queue: str, timeout: float | None = None) -> dict[str, Any]:  # noqa: ARG002
        wait_s = _WAIT_S / max(1, len(self._active_queues))
        lease_s = self._options.get("lease_s", _LEASE_S)
        taken = self._group(queue).take_once(1, wait_s, lease_s=lease_s)
        if not taken:
            raise Empty
        message: dict[str, Any] = loads(taken[0].payload.decode())
        message["redelivered"] = taken[0].attempt > 1
        # The publisher's tag is the same in each queue to which an exchange routes a message.
        message["properties"]["delivery_tag"] = tag = uuid4().hex
        self._taken[tag] = taken[0]
        return message

    def basic_ack(self, delivery_tag: str, multiple: bool = False) -> None:  # noqa: FBT001, FBT002
        """Acknowledge a task, durably."""
        taken = self._taken.pop(delivery_tag, None)
        try:
            if taken is not None:
                taken.ack()
        finally:  # otherwise it counts as prefetched until the worker ends
            super().basic_ack(delivery_tag, multiple)

    def basic_reject(self, delivery_tag: str, requeue: bool = False) -> None:  # noqa: FBT001, FBT002
        """Give a task back; otherwise make it a dead letter, or drop it if the group has none."""
        taken = self._taken.pop(delivery_tag, None)
        try:
            if taken is not None and requeue:
                taken.release()
            elif taken is not None:
                try:
                    taken.reject("rejected by Celery")
                except InvalidRequest:
                    taken.ack()
        finally:
            super().basic_reject(delivery_tag, requeue=False)

    def _size(self, queue: str) -> int:
        state = self._group(queue).show().state
        return state.unread + state.open

    def _purge(self, queue: str) -> int:
        size = self._size(queue)
        self._group(queue).seek("end")
        return size

    def _delete(self, queue: str, *_: Any, **__: Any) -> None:
        self._known.discard(queue)
        try:
            self._topic(queue).delete()
        except TopicNotFound:
            return

    def close(self) -> None:
        """Give back all tasks that are not settled."""
        if not self.closed:
            with tms.deadline(_CLOSE_S):
                for taken in self._taken.values():
                    with suppress(TmsError, RuntimeError):  # its lease expires anyway
                        taken.release()
            self._taken.clear()
        super().close()


class Transport(virtual.Transport):
    """Connections to a server."""

    Channel = Channel
    default_port = 11015
    polling_interval = None  # `_get` waits
    driver_type = "tms"
    driver_name = "tms"
    connection_errors = (*virtual.Transport.connection_errors, TmsError)

    implements = virtual.Transport.implements.extend(exchange_type=frozenset(["direct", "topic"]))

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._client: tms.Client | None = None

    @property
    def tms_client(self) -> tms.Client:
        """The client, connected when it is first needed."""
        if self._client is None:
            client, options = self.client, self.client.transport_options
            url = f"http://{client.hostname or 'localhost'}:{client.port or self.default_port}"
            self._client = tms.connect(options.get("url", url), **options.get("connection", {}))
        return self._client

    def driver_version(self) -> str:
        """Return the version of TMS."""
        return tms.__version__

    def close_connection(self, connection: Any) -> None:
        """Close the channels, then the client."""
        super().close_connection(connection)
        if self._client is not None:
            self._client.close()
            self._client = None


TRANSPORT_ALIASES["tms"] = "tms.contrib.celery:Transport"
