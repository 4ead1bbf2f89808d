"""Prints the files of ours that a request passes in a standalone server, and how often.

The server runs in this process, in memory and without access control. Each request was sent before,
so caches of repeated requests are filled. The try with the fewest files is printed, because timers
of the server may fire during a request. Worker processes are not traced.
"""

import http.client
import json
import os
import signal
import sys
import threading
from collections import Counter
from collections.abc import Callable
from itertools import count
from pathlib import Path
from types import FrameType
from typing import Any
from urllib.parse import urlsplit

from tms.server.serving.process import serve
from tms.settings import Settings

ROOT = f"{Path(__file__).resolve().parents[1]}/"
PRODUCT = ("api/", "cleanup/", "tables/", "tms/")
WARM, TRIES = 20, 5
_NUMBERS = count()
TOPIC = "/v1/namespaces/default/topics/orders"
GROUP = f"{TOPIC}/subscriptions/billing"

Ask = Callable[[str, str, object], dict[str, Any]]


class Trace:
    """Counts the calls into our files, by file."""

    def __init__(self) -> None:
        self._calls: Counter[str] | None = None

    def __call__(self, frame: FrameType, event: str, _: object) -> None:
        """Count a call, as the profile function of `sys.setprofile`."""
        calls = self._calls
        if calls is not None and event == "call":
            place = frame.f_code.co_filename.removeprefix(ROOT)
            if place.startswith(PRODUCT):
                calls[place] += 1

    def of(self, send: Callable[[Ask], None], ask: Ask) -> Counter[str]:
        """Return the calls during `send`, in all threads, in the order of the first ones."""
        calls = self._calls = Counter()
        send(ask)
        self._calls = None
        return Counter(calls)  # a copy, as another thread may still count a call


def _publish(ask: Ask) -> None:
    ask("POST", f"{TOPIC}/publish", {"messages": ["m"]})


def _poll(ask: Ask) -> None:
    ask("POST", f"{TOPIC}/poll", {"limit": 1})


def _take_start_commit(ask: Ask) -> None:
    taken = ask("POST", f"{GROUP}/take", {"member": "a"})
    started = ask("POST", "/v1/transactions?namespace=default", {})
    acks = {
        "namespace": "default",
        "topic": "orders",
        "subscription": "billing",
        "member": "a",
        "delivery": taken["delivery"],
        "ids": [each["id"] for each in taken["messages"]],
    }
    pointer = started["transaction_id"]
    ask("POST", f"/v1/transactions/{pointer}/commit", {"acks": [acks]})


def _register(ask: Ask) -> None:
    fields = [{"name": f"f{next(_NUMBERS)}", "type": "int", "default": 0}]
    schema = json.dumps({"type": "record", "name": "Order", "fields": fields})
    ask("POST", "/v1/registry/subjects/orders/versions", {"schema": schema})


REQUESTS = {
    "publish": _publish,
    "poll": _poll,
    "take, start, commit": _take_start_commit,
    "registration of an Avro schema that is compared with a version": _register,
}


def asking(url: str) -> Ask:
    """Return a function that sends requests over one connection and returns their JSON."""
    connection = http.client.HTTPConnection(urlsplit(url).netloc)

    def ask(method: str, path: str, body: object) -> dict[str, Any]:
        connection.request(method, path, json.dumps(body), {"content-type": "application/json"})
        with connection.getresponse() as answer:
            text = answer.read()
        if answer.status >= http.HTTPStatus.BAD_REQUEST:
            raise RuntimeError(f"{method} {path}: {answer.status} {text.decode()}")
        found = json.loads(text or b"{}")
        return found if isinstance(found, dict) else {}

    return ask


def trace_all(trace: Trace, url: str) -> None:
    """Send each request until caches are warm, and once more while its calls are counted."""
    try:
        ask = asking(url)
        ask("PUT", TOPIC, {})
        ask("PUT", GROUP, {"kind": "shared"})
        for _ in range(3 * WARM):
            _publish(ask)
        for name, send in REQUESTS.items():
            for _ in range(WARM):
                send(ask)
            calls = min((trace.of(send, ask) for _ in range(TRIES)), key=len)
            print(f"{name}: {len(calls)} files, {calls.total()} calls")
            print("".join(f"  {number:5} {place}\n" for place, number in calls.items()))
    finally:
        os.kill(os.getpid(), signal.SIGTERM)


def main() -> None:
    """Serve, and trace requests from another thread."""
    trace = Trace()
    sys.setprofile(trace)
    threading.setprofile(trace)

    def started(url: str, *_: str) -> None:
        threading.Thread(target=trace_all, args=(trace, url)).start()

    settings = Settings(
        store="memory:",
        listen="127.0.0.1:0",
        log_level="warning",
        registry_check_s_max=600,  # tracing is slow
    )
    serve(settings, started)


if __name__ == "__main__":
    main()
