"""The shard of each operation's requests, by their path or query.

With a single shard, which is the whole store, all requests are for that, except those about the
server that receives them.
"""

from collections.abc import Callable
from typing import NamedTuple

from api.http.exchange import Exchange, topic_id_of
from api.http.operation import RESOURCES, Operation
from api.http.protocol.numbers import whole_number
from api.http.query_parameters import values_of
from tms.core.errors import OtherShard, TmsError
from tms.core.values.caller import AUDIT_TOPIC
from tms.core.values.shards import ShardBy, Sharding

Place = Callable[[Exchange], int | None]
"""Returns the shard of a request; None if it names none."""

_OF_HOME = ("publishAll", "startTransaction")
_OF_NAMESPACE = ("listTopics", "getPositions")
"""Operations on all topics of a namespace."""
_CONSOLE = "/console"
_CONSOLE_OF_NAMESPACE = ("/console/topics", "/console/namespaces/{namespace}/topics")
_CONSOLE_OF_SHARD = ("/console/cleanup", "/console/cleanup/run")
"""Pages whose shard is not in their paths. Topics by name are routed to their shards."""
_OF_SERVER = ("/v1/cluster", "/v1/clock", "/v1/backups", "/v1/registry")
"""The prefixes of paths that each server answers for itself."""
_CONSOLE_OF_SERVER = ("/console/sign-in", "/console/sign-out", "/console/assets/{name}")


class OperationPlace(NamedTuple):
    """The place of an operation's requests."""

    find: Place
    is_of_all: bool = False
    """Whether all shards are meant if a request names none."""


class RequestPlaces:
    """The places of requests in one sharding."""

    def __init__(self, sharding: Sharding) -> None:
        self._sharding = sharding

    def place_of(self, template: str, operation: Operation) -> OperationPlace | None:
        """Return the place of an operation; None if each server answers it."""
        is_by_namespace = self._sharding.by is ShardBy.NAMESPACE
        place: OperationPlace | None = None
        if self._sharding.shards == 1:
            is_resource = template.startswith(RESOURCES) and not template.startswith(_OF_SERVER)
            is_page = template.startswith(_CONSOLE) and template not in _CONSOLE_OF_SERVER
            place = OperationPlace(_first) if is_resource or is_page else None
        elif "{topic}" in template:
            place = OperationPlace(self._of_topic)
        elif "{transaction_id}" in template:
            place = OperationPlace(self._of_transaction)
        elif operation.name in _OF_HOME or (is_by_namespace and operation.name in _OF_NAMESPACE):
            place = OperationPlace(self._of_home)
        elif template in _CONSOLE_OF_NAMESPACE:
            place = OperationPlace(self._of_home) if is_by_namespace else None
        elif template in _CONSOLE_OF_SHARD:
            place = OperationPlace(self._of_query)
        elif operation.name == "debugRows":
            place = OperationPlace(self._of_rows, is_of_all=True)
        elif template == "/console/audit":
            audit = self._sharding.shard_of(AUDIT_TOPIC)
            place = OperationPlace(lambda _: audit)
        elif "shard" in (operation.known_parameters or ()):
            place = OperationPlace(self._of_query, is_of_all=True)
        return place

    def _of_topic(self, exchange: Exchange) -> int:
        return self._sharding.shard_of(
            topic_id_of(exchange.names["namespace"], exchange.names["topic"])
        )

    def _of_transaction(self, exchange: Exchange) -> int:
        return self._sharding.shard_of_transaction(exchange.transaction_id)

    def _of_home(self, exchange: Exchange) -> int:
        values = values_of(exchange.query) if exchange.query else {}
        namespace = exchange.names.get("namespace") or values.get("namespace") or "default"
        return self._sharding.home(namespace, values.get("topic"))

    def _of_query(self, exchange: Exchange) -> int | None:
        shard = values_of(exchange.query).get("shard", "") if exchange.query else ""
        return whole_number(shard, self._sharding.shards - 1)

    def _of_rows(self, exchange: Exchange) -> int | None:
        values = values_of(exchange.query) if exchange.query else {}
        if "shard" in values or "topic" not in values:
            return self._of_query(exchange)
        return self._sharding.home(values.get("namespace", "default"), values["topic"])

    def error_of(self, error: TmsError, exchange: Exchange) -> TmsError:
        """Return `OtherShard` if something is unknown because it is in another shard, else `error`.

        A shard knows neither the transactions nor the topics of others.
        """
        names = exchange.names
        pointer, topic = error.detail.get("transaction_id"), error.detail.get("topic")
        if pointer is None and "transaction_id" in names:
            pointer = exchange.transaction_id
        if topic is None and "topic" in names:
            topic = str(exchange.topic_id)
        if topic is None or (pointer is None and "topic" not in names):
            return error
        namespace, _, name = topic.partition(":")
        if pointer is None:  # it may be the topic of a group's dead letters
            own = self._sharding.shard_of(exchange.topic_id)
        else:
            own = self._sharding.shard_of_transaction(pointer)
        shard = self._sharding.shard_of(topic_id_of(namespace, name))
        if own == shard:
            return error
        transaction = {} if pointer is None else {"transaction_id": pointer}
        return OtherShard(**transaction, transaction_shard=own, topic=topic, topic_shard=shard)


def _first(_: Exchange) -> int:
    """Return the number of the only shard."""
    return 0
