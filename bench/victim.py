"""The victim of hostile callers: it works, measures, and records each broken promise."""

import http.client
import itertools
import json
import time
from collections.abc import Callable
from threading import Event, Thread
from typing import Any
from urllib.parse import urlsplit

_OK = http.client.OK
_TIMEOUT_S = 60.0
_PAUSE_S = 0.05
_REGISTER_S_MAX = 10.0
"""The time limit of a registration next to others that never end."""
_ID_MAX = 2**31 - 1
_NAMESPACE = "/v1/namespaces/default"
_TOPIC = f"{_NAMESPACE}/topics/orders"
_OWNER = "till"

Answer = tuple[int, Any]


class Caller:
    """One persistent connection to a server."""

    def __init__(self, url: str, token: str) -> None:
        self._address = urlsplit(url).netloc
        self._headers = {"Content-Type": "application/json", "Authorization": f"Bearer {token}"}
        self._connection: http.client.HTTPConnection | None = None

    def ask(self, method: str, path: str, body: object = None) -> Answer:
        """Return the status and body of the answer; status 0 if there is none.

        Repeats the request if the connection was closed while it was idle.
        """
        was_kept = self._connection is not None
        answer = self._asked(method, path, body)
        return self._asked(method, path, body) if was_kept and not answer[0] else answer

    def _asked(self, method: str, path: str, body: object) -> Answer:
        if self._connection is None:
            self._connection = http.client.HTTPConnection(self._address, timeout=_TIMEOUT_S)
        content = None if body is None else json.dumps(body)
        try:
            self._connection.request(method, path, content, self._headers)
            answer = self._connection.getresponse()
            received = answer.read()
        except (OSError, http.client.HTTPException):
            self._connection.close()
            self._connection = None
            return 0, None
        return answer.status, json.loads(received or b"null")

    def sure(self, method: str, path: str, body: object = None) -> Any:
        """Return the body of the answer. Raises `RuntimeError` if it is a refusal."""
        status, content = self.ask(method, path, body)
        if status != _OK:
            raise RuntimeError(f"{method} {path[:80]}: {status} {content}")
        return content


class Victim:
    """Publishes and polls, and registers schemas, each in a thread, one after the other."""

    def __init__(self, url: str, token: str) -> None:
        """Create a topic to publish to."""
        self._publishes, self._registers = Caller(url, token), Caller(url, token)
        self._sequences, self._schemas = itertools.count(1), itertools.count(1)
        self._after: str | None = None
        self._last_schema_id = 0
        self.publish_s: list[float] = []
        self.register_s: list[float] = []
        self.refused: list[str] = []
        self.broken: list[str] = []
        """The broken promises."""
        self._publishes.sure("PUT", _TOPIC, {})

    def work_while(self, goes_on: Callable[[], bool]) -> None:
        """Work, with new measurements."""
        self.publish_s, self.register_s, self.refused = [], [], []
        ends = Event()
        registering = Thread(target=self._register_until, args=(ends,))
        registering.start()
        try:
            while goes_on():
                self._publish(next(self._sequences))
        finally:
            ends.set()
            registering.join()

    def _publish(self, number: int) -> None:
        """Commit a sequence, sometimes again or with a transaction; and read all of it."""
        body = {"topics": {"orders": [f"{number}"]}, "owner": _OWNER, "sequence": number}
        committed = [f"{number}"]
        self._insisted(self._publishes, self.publish_s, "POST", f"{_NAMESPACE}/publish", body)
        if number % 5 == 0:
            path = f"{_NAMESPACE}/publish"
            content = self._insisted(self._publishes, self.publish_s, "POST", path, body)
            self._check(content["duplicate"] is True, f"sequence {number} was committed twice")
        if number % 5 == 1:
            is_kept = number % 10 == 1
            self._transact(f"in {number}", "commit" if is_kept else "invalidate")
            committed += [f"in {number}"] if is_kept else []
        start = {} if self._after is None else {"startFrom": self._after, "inclusive": False}
        path = f"{_TOPIC}/poll?isolation=committed"
        polled = self._insisted(self._publishes, self.publish_s, "POST", path, start)
        found = [message["payload"] for message in polled]
        self._check(found == committed, f"{committed} was committed, and {found} read")
        self._after = polled[-1]["id"] if polled else self._after

    def _transact(self, payload: str, end: str) -> None:
        begun = self._insisted(
            self._publishes, self.publish_s, "POST", "/v1/transactions?codec=false", {}
        )
        name = begun["transaction_id"]
        body = {"messages": [payload], "transactionWritePointer": begun["write_pointer"]}
        self._insisted(self._publishes, self.publish_s, "POST", f"{_TOPIC}/publish", body)
        self._insisted(self._publishes, self.publish_s, "POST", f"/v1/transactions/{name}/{end}")

    def _register_until(self, ends: Event) -> None:
        while not ends.is_set():
            self._register(next(self._schemas))

    def _register(self, number: int) -> None:
        fields = [{"name": f"of_ann_{number}", "type": "string"}]
        schema = json.dumps({"type": "record", "name": "Order", "fields": fields})
        path = f"/v1/registry/subjects/ann-{number}/versions"
        content = self._insisted(self._registers, self.register_s, "POST", path, {"schema": schema})
        took_s, found = self.register_s[-1], content["id"]
        self._check(took_s < _REGISTER_S_MAX, f"schema {number} took {took_s:.0f} s")
        self._check(self._last_schema_id < found <= _ID_MAX, f"schema {number} has id {found}")
        self._last_schema_id = found
        path = f"/v1/registry/schemas/ids/{found}"
        kept = self._insisted(self._registers, self.register_s, "GET", path)
        is_same = json.loads(kept["schema"]) == json.loads(schema)
        self._check(is_same, f"schema {found} is not as it was registered")

    def _insisted(
        self, caller: Caller, took_s: list[float], method: str, path: str, body: object = None
    ) -> Any:
        """Return the body of the answer; repeat the request until it is not refused."""
        while True:
            begun = time.perf_counter()
            status, content = caller.ask(method, path, body)
            took_s.append(time.perf_counter() - begun)
            if status == _OK:
                return content
            self.refused.append(f"{method} {path[:80]}: {status} {json.dumps(content)[:200]}")
            if len(self.refused) > 1_000:
                raise RuntimeError(f"refused for good: {self.refused[-1]}")
            time.sleep(_PAUSE_S)

    def _check(self, holds: bool, otherwise: str) -> None:  # noqa: FBT001
        if not holds:
            self.broken.append(otherwise)
