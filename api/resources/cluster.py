"""The cluster over REST: its servers, and their leader."""

from api.http.exchange import JSON_TYPE, OK, Exchange
from api.http.operation import Operation
from api.http.request_body import SMALL_BODY_BYTES_MAX, read_body
from api.openapi.parts import TIMESTAMP, json_content
from api.openapi.structs import answer_of
from api.resources.paths import CLUSTER
from tms.core.errors import InvalidRequest
from tms.core.services.cluster import ClusterState, Role
from tms.security.resources import Action
from tms.wire.json_fields import COUNT, NULL, Json, one_of
from tms.wire.json_values import decode, encode

_ALONE = ClusterState(id=None, role=Role.ALONE, leader=None, token=None)
_STATE = answer_of(
    ClusterState,
    {
        "ClusterState.id": "The id of the server that answers.",
        "ClusterState.role": "The role of the server that answers.",
        "ClusterState.leader": "The instance that is the leader, or is taking over.",
        "ClusterState.token": "A number that grows with each change of the leader.",
        "ClusterState.by": (
            "The rule that assigns topics to shards; null if the store has one shard."
        ),
        "ClusterState.shards": ("The shards in order, if the store has several."),
        "ShardState.shard": "The number of the shard.",
        "ShardState.leader": "The instance that leads it, or takes it over.",
        "ShardState.token": "The token of its leader.",
        "ShardState.state": "`serving`, `taking over`, `moving` or `free`.",
        "ShardState.wish": "The instance to which an operator pinned it; null if any may lead it.",
        "Instance.id": "A number that no other server ever has.",
        "Instance.address": "The URL at which the other servers reach it.",
        "Instance.since_ms": "Milliseconds since 1970.",
        "Instance.store_format": "The newest format of the store that this server knows.",
        "Instance.features": "The features of stores that this server knows.",
        "Instance.reaches_store_since_ms": (
            "The time since which it reaches the store, in milliseconds since 1970; null if it "
            "does not, or if its version does not report it."
        ),
        "Instance.is_stopping": "Whether it is closing its shards and stopping.",
        "Instance.agreed": "The settings in which the servers of a cluster agree, by name.",
        "Instance.unreached_servers": "The servers that it does not reach at their addresses.",
        "Instance.unopened_shards": (
            "The shards that it could not open, and that no server has served since."
        ),
        "Instance.boot": "An id of the process; empty without authentication.",
    },
)
_FORMAT = {
    "store_format": 3,
    "features": ["groups"],
    "reaches_store_since_ms": TIMESTAMP,
    "boot": "0f3a5c7e9b1d2468",
    "agreed": {"transactions": "own", "transaction_lifetime_s_max": 90000},
    "is_stopping": False,
    "unreached_servers": [],
    "unopened_shards": [],
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
    "shards": [
        {"shard": shard, "leader": 4, "token": 2, "state": "serving", "wish": None}
        for shard in range(2)
    ],
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
_ERRORS = ("no_leader", "metadata_unavailable", "metadata_closed")
_WISHES = json_content(
    {"type": "object", "additionalProperties": one_of(COUNT, NULL)},
    wish={"1": 7},
    none={"1": None},
)
_CONTENT = json_content(_STATE, standby=_EXAMPLE, alone=_LONE_EXAMPLE)


async def show(exchange: Exchange) -> None:
    """Answer with the state of the cluster."""
    cluster, sharding = exchange.context.cluster, exchange.context.sharding
    state = _ALONE if cluster is None else await cluster.state()
    if cluster is None and sharding is not None:
        state = state.with_shards(sharding)
    await exchange.answer(OK, encode(state), JSON_TYPE)


async def wish(exchange: Exchange) -> None:
    """Pin shards to servers, or let the balancer choose again."""
    exchange.check_json()
    wanted_leaders = decode(
        dict[str, int | None], await read_body(exchange, SMALL_BODY_BYTES_MAX), code="invalid_wish"
    )
    make = exchange.context.wish
    if make is None:
        raise InvalidRequest("invalid_wish", expected="a store with shards, in a cluster")
    sharding = exchange.context.sharding
    numbers = {str(shard): shard for shard in range(0 if sharding is None else sharding.shards)}
    for shard in wanted_leaders.keys() - numbers.keys():
        raise InvalidRequest("invalid_wish", shard=shard, expected=f"0 to {len(numbers) - 1}")
    wishes = await make({numbers[shard]: instance for shard, instance in wanted_leaders.items()})
    answer = {str(shard): instance for shard, instance in sorted(wishes.items())}
    await exchange.answer(OK, encode(answer), JSON_TYPE)


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
        errors=_ERRORS,
    ),
    Operation(
        name="putWishes",
        action=Action.OPERATE,
        method="PUT",
        path=f"{CLUSTER}/wishes",
        handler=wish,
        tag="Server",
        summary="Pin shards to servers",
        description=(
            "A shard moves as soon as its server is available and all shards are served. Wishes "
            "for other shards do not change; null removes a wish."
        ),
        success="The current wishes, by shard.",
        request=_WISHES,
        answer=_WISHES,
        errors=("invalid_wish", *_ERRORS),
    ),
)
