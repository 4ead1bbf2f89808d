"""A server that stands by, alone: it has the server at a URL answer, and needs no cluster.

`python -m bench.standby URL [CA CERT KEY]`: with these it speaks TLS on both sides.
"""

import asyncio
import sys

import uvloop

from api.app import create_standby
from api.cluster.forwarding import Forwarder
from api.http.server import ListeningAddress, serve
from api.http.tls import ServerTls
from tms.core.limits import Limits
from tms.core.tls import TlsFiles, client_context


async def _main(leader: str, ca: str = "", cert: str = "", key: str = "") -> None:
    forwarder = Forwarder(1, client_context(ca) if ca else None)
    forwarder.forward_to(leader)
    await serve(
        [ListeningAddress(create_standby(forwarder, Limits()), "127.0.0.1", 0)],
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
