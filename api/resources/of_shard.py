"""The services for a request: those of the shard that its query names, or of all shards."""

from api.http.exchange import Exchange
from api.http.protocol.answer import Headers
from api.http.query_parameters import values_of, whole_number_of
from api.openapi.parts import parameter
from tms.core.services.cluster import MISSING_SHARDS
from tms.core.services.server_services import ServerServices
from tms.core.values.shards import SHARDS_MAX

SHARD_PARAMETER = parameter(
    "shard",
    "Only this shard, if the store has several. A store without shards is the shard 0.",
    {"type": "integer", "minimum": 0, "maximum": SHARDS_MAX - 1},
)

MISSING_HEADER = {
    "TMS-Missing-Shards": {
        "description": "The shards that the answer omits, because no server leads them now.",
        "schema": {"type": "string", "examples": ["3,7"]},
    }
}


def services_of(exchange: Exchange) -> ServerServices:
    """Return the services. Raises `InvalidRequest` (invalid_query) if there is no such shard."""
    services = exchange.context.services
    if not exchange.query:
        return services
    shard = whole_number_of(values_of(exchange.query), "shard", "number of a shard")
    return services if shard is None else services.in_shard(shard)


def present_of(exchange: Exchange) -> tuple[ServerServices, Headers]:
    """Return the services for a list, and a header that names the shards that it leaves out.

    Raises as `services_of`.
    """
    services = services_of(exchange)
    if services is not exchange.endpoint.context.services:
        return services, ()
    services, missing = services.present()
    if not missing:
        return services, ()
    return services, ((MISSING_SHARDS.encode(), ",".join(map(str, missing)).encode()),)
