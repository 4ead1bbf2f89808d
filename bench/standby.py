"""A follower without a cluster: it forwards all requests to the server at a URL.

`python -m bench.standby URL [CA CERT KEY]`: with certificates it uses TLS on both sides.
"""

import asyncio
import sys

import uvloop
from prometheus_client import CollectorRegistry

from api.app import create_app
from api.cluster.forwarding import Forwarder
from api.cluster.routing import ShardRouting
from api.http.listener.server import ListeningAddress, serve
from api.http.listener.tls import ServerTls
from tms.core.limits import Limits
from tms.core.runtime.tls import TlsFiles, client_context
from tms.core.runtime.trusted_clock import trusted
from tms.core.values.shards import Sharding
from tms.namespaces.store import UndeclaredNamespaces
from tms.server.shard import Process
from tms.server.sharded import services_of_shards
from tms.settings import Settings


async def _main(leader: str, ca: str = "", cert: str = "", key: str = "") -> None:
    forwarder = Forwarder(1, client_context(ca) if ca else None)
    forwarder.forward_to(leader)
    limits, registry = Limits(), CollectorRegistry()
    namespaces = UndeclaredNamespaces(limits)
    process = Process(limits, trusted(None, limits), registry, namespaces, None, False)
    services = services_of_shards(Sharding(1), process, Settings())
    routing = ShardRouting(Sharding(1), [forwarder], hold_s=5.0, held_bytes_max=1 << 26)
    app = routing.install(create_app(services, limits, registry=registry))
    await serve(
        [ListeningAddress(app, "127.0.0.1", 0)],
        limits=Limits(),
        on_started=lambda url: print(f"A server that stands by is at {url} now.", flush=True),
        on_stopping=lambda: None,
        tls=ServerTls(TlsFiles(cert, key)) if cert else None,
    )
    await forwarder.close()


if __name__ == "__main__":
    sys.setswitchinterval(0.0005)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_main(*sys.argv[1:]))
