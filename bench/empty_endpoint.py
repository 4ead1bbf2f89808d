"""An ASGI endpoint that reads a body and answers with nothing, or with so many bytes.

`/bytes/N/…` answers with N bytes. It runs on the same uvicorn, loop and settings as TMS: what it
reaches is the limit that HTTP sets.
"""

import asyncio
import sys
from functools import lru_cache

import uvloop
from starlette.types import Receive, Scope, Send

from api.serve import serve
from tms.core.limits import Limits


@lru_cache
def _answer_to(path: str) -> bytes:
    parts = path.split("/")
    return bytes(int(parts[2])) if parts[1] == "bytes" else b""


async def _app(scope: Scope, receive: Receive, send: Send) -> None:
    while (await receive()).get("more_body", False):
        pass
    body = _answer_to(scope["path"])
    headers = [(b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})


async def _main() -> None:
    await serve(
        _app,
        host="127.0.0.1",
        port=0,
        limits=Limits(),
        on_started=lambda url: print(f"An empty endpoint is at {url} now.", flush=True),
        on_stopping=lambda: None,
    )


if __name__ == "__main__":
    sys.setswitchinterval(0.0005)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_main())
