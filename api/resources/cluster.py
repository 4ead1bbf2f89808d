"""The cluster over REST: which servers there are, and which of them leads."""

from dataclasses import replace

from api.http.exchange import JSON_TYPE, OK, Exchange
from api.http.operation import Operation
from api.openapi.parts import TIMESTAMP, json_content
from api.openapi.structs import answer_of
from api.resources.paths import CLUSTER
from tms.core.cluster import ClusterState, Role
from tms.core.errors import TmsError
from tms.security.resources import Action
from tms.wire.json_fields import Json
from tms.wire.json_values import encode

_ALONE = ClusterState(id=None, role=Role.ALONE, leader=None, token=None)
_STATE = answer_of(
    ClusterState,
    {
        "ClusterState.id": "The id of the server that answers.",
        "ClusterState.role": "The role of the server that answers.",
        "ClusterState.leader": "The instance that is the leader, or is taking over.",
        "ClusterState.token": "A number that grows with each change of the leader.",
        "ClusterState.by": (
            "The rule by which topics are in shards; null if the store has one shard."
        ),
        "ClusterState.shards": (
            "The shards in order, if the store has several; null if the server that answers could "
            "not read yet how many there are."
        ),
        "ShardState.shard": "The number of the shard.",
        "ShardState.leader": "The instance that leads it, or takes it over.",
        "ShardState.token": "The token of its leader.",
        "Instance.id": "A number that no other server ever has.",
        "Instance.address": "The URL at which the other servers reach it.",
        "Instance.since_ms": "Milliseconds since 1970.",
        "Instance.store_format": "The newest format of the store that this server knows.",
        "Instance.features": "The features of stores that this server knows.",
        "Instance.reaches_store_since_ms": (
            "Since when it reaches the store, in milliseconds since 1970; null if it does not, or "
            "if its version cannot tell."
        ),
        "Instance.boot": "An id of the process; empty without authentication.",
    },
)
_FORMAT = {
    "store_format": 3,
    "features": ["groups"],
    "reaches_store_since_ms": TIMESTAMP,
    "boot": "0f3a5c7e9b1d2468",
}
_EXAMPLE = {
    "id": 7,
    "role": "standby",
    "leader": 4,
    "token": 2,
    "instances": [
        {"id": 4, "address": "http://a:11015", "version": "1.2.3", "since_ms": TIMESTAMP} | _FORMAT,
        {"id": 7, "address": "http://b:11015", "version": "1.2.3", "since_ms": TIMESTAMP} | _FORMAT,
    ],
    "by": "namespace",
    "shards": [{"shard": shard, "leader": 4, "token": 2} for shard in range(2)],
}
_LONE_EXAMPLE: Json = {
    "id": None,
    "role": "alone",
    "leader": None,
    "token": None,
    "instances": [],
    "by": None,
    "shards": [],
}
_CONTENT = json_content(_STATE, standby=_EXAMPLE, alone=_LONE_EXAMPLE)


async def show(exchange: Exchange) -> None:
    """Answer with how the cluster stands."""
    cluster = exchange.context.cluster
    state = _ALONE if cluster is None else await cluster.state()
    try:
        sharding = await exchange.context.sharding()
    except TmsError:
        state = replace(state, shards=None)
    else:
        state = state if sharding is None else state.with_shards(sharding)
    await exchange.answer(OK, encode(state), JSON_TYPE)


OPERATIONS = (
    Operation(
        name="getCluster",
        action=Action.OPERATE,
        method="GET",
        path=CLUSTER,
        handler=show,
        tag="Server",
        summary="Show the servers of the cluster, and which one is the leader",
        description=(
            "The server that gets the request answers it itself. It forwards most other requests "
            "to the leader; those answers have the header `TMS-Forwarded-By`."
        ),
        success="The state of the cluster.",
        answer=_CONTENT,
        errors=("no_leader", "metadata_unavailable", "metadata_closed"),
    ),
)
