"""Clients of a cluster that publish, alone and in transactions, and record acknowledgements."""

import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import httpx

from tests.waiting import WAIT_S_MAX, wait_until

TOPICS = ("a", "b")


def base_of(namespace: str) -> str:
    """Return the path of a namespace's topics."""
    return f"/v1/namespaces/{namespace}/topics"


BASE = base_of("default")
TIMEOUT_S = 10
"""A transaction that nobody ends becomes invalid after this time."""
_PATIENCE_S = 2.0
"""How long a client waits for an answer before it asks another server."""
Json = Any
Work = Callable[[httpx.Client, str, str], None]
"""Sends a request to a server, under a name that is new."""


class Clients:
    """Threads that publish, alone and in transactions, and record what was acknowledged."""

    def __init__(
        self,
        urls: Sequence[str],
        namespace: str = "default",
        *,
        publishers: int = 3,
        pause_s: float = 0.0,
    ) -> None:
        """Start the threads; each pauses for this many seconds after each request."""
        self._pause_s = pause_s
        self._urls = urls
        self._namespace = namespace
        self._base = base_of(namespace)
        self.acknowledged: dict[str, list[str]] = defaultdict(list)
        """The acknowledged plain messages, by topic."""
        self.started = 0
        """How many transactions."""
        self.committed: list[str] = []
        self.moved: list[int] = []
        """The versions of the position that acknowledged commits returned."""
        self.count = 0
        self.longest_s = 0.0
        self.errors = Counter[str]()
        """The requests that failed since `watch`, by status or kind of error."""
        self.broken: list[AssertionError] = []
        """Answers that no fault explains; each ended a thread."""
        self._last_s = time.monotonic()
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self.working = threading.Event()
        """While it is not set, no new request is sent."""
        self.working.set()
        self._busy: list[threading.Lock] = []
        """For each thread, held during a request."""
        self._threads = [
            threading.Thread(target=self._work, args=(work, number), daemon=True)
            for number, work in enumerate(self.works(publishers))
        ]
        self._busy += [threading.Lock() for _ in self._threads]
        for thread in self._threads:
            thread.start()

    def works(self, publishers: int) -> Sequence[Work]:
        """Return what the threads do, again and again; the last one runs transactions."""
        return [*[self._publish] * publishers, self._transact]

    def _work(self, work: Work, number: int) -> None:
        at = count = 0
        with httpx.Client(timeout=_PATIENCE_S, trust_env=False) as http:
            while not self._stop.is_set():
                self.working.wait()
                count += 1
                try:
                    with self._busy[number]:
                        if self.working.is_set():
                            work(http, self._urls[at % len(self._urls)], f"{number}.{count}")
                    self._stop.wait(self._pause_s)
                except AssertionError as error:
                    self.broken.append(error)
                    raise
                except httpx.HTTPError as error:
                    at += 1
                    with self._lock:
                        self.errors[_kind(error)] += 1
                    self._stop.wait(0.02)

    def pause(self) -> None:
        """Send no new request, and wait for the ones that were sent; `working` ends it."""
        self.working.clear()
        for lock in self._busy:
            with lock:
                pass

    def note(self, notes: list[Any], *what: Any) -> None:
        """Add what one request did, and count the request."""
        with self._lock:
            notes += what
            self.count += 1
            now_s = time.monotonic()
            self.longest_s = max(self.longest_s, now_s - self._last_s)
            self._last_s = now_s

    def _publish(self, http: httpx.Client, url: str, name: str) -> None:
        topic = TOPICS[len(name) % len(TOPICS)]
        post(http, f"{url}{self._base}/{topic}/publish", {"messages": [name]})
        self.note(self.acknowledged[topic], name)

    def _transact(self, http: httpx.Client, url: str, name: str) -> None:
        position = http.get(f"{url}{self._base}/{TOPICS[0]}/subscriptions/s")
        position.raise_for_status()
        version = position.json()["version"]
        started = post(
            http,
            f"{url}/v1/transactions?codec=false&namespace={self._namespace}",
            {"timeout_s": TIMEOUT_S},
        )
        self.started += 1
        body = {"messages": [name], "transactionWritePointer": started["write_pointer"]}
        post(http, f"{url}{self._base}/{TOPICS[0]}/publish", body)
        post(http, f"{url}{self._base}/{TOPICS[1]}/store", body)
        advance = {
            "topic": TOPICS[0],
            "namespace": self._namespace,
            "subscription": "s",
            "after": f"{version:040x}",
            "expected_version": version,
        }
        stored = {
            "topic": TOPICS[1],
            "namespace": self._namespace,
            "write_pointer": started["write_pointer"],
        }
        commit = f"{url}/v1/transactions/{started['transaction_id']}/commit"
        post(http, commit, {"advances": [advance], "publish": [stored]})
        self.note(self.moved, version + 1)
        self.committed.append(name)

    def publish_to(self, url: str, name: str) -> bool:
        """Publish once to one server, with a longer timeout; return whether it acknowledged."""
        with httpx.Client(timeout=WAIT_S_MAX, trust_env=False) as http:
            try:
                self._publish(http, url, name)
            except httpx.HTTPError:
                return False
        return True

    def watch(self) -> None:
        """Begin to measure."""
        with self._lock:
            self.longest_s, self._last_s = 0.0, time.monotonic()
            self.errors.clear()

    def until_more(self, number: int) -> None:
        enough = self.count + number
        wait_until(
            lambda: self.count >= enough or self.broken, f"{number} more requests are acknowledged"
        )
        assert not self.broken

    def check(self, shown: Mapping[tuple[str, bool], Sequence[tuple[str, str]]], at: Json) -> None:
        """Compare the acknowledged messages with those that readers get in the end.

        The latter are in `shown`, by topic and by whether the reader was a committed one; `at` is
        the position of the subscription.
        """
        given = {topic: [payload for _, payload in shown[topic, True]] for topic in TOPICS}
        for topic in TOPICS:
            all_of_it = [payload for _, payload in shown[topic, False]]
            assert len(all_of_it) == len(set(all_of_it)), f"{topic} has a message twice"
            lost = set(self.acknowledged[topic]) - set(all_of_it)
            assert not lost, f"{topic} lost {len(lost)} acknowledged messages: {sorted(lost)[:5]}"
            lost = set(self.committed) - set(given[topic])
            assert not lost, f"{topic} lost {len(lost)} committed messages: {sorted(lost)[:5]}"
        prefix = f"{len(self._threads) - 1}."  # of the thread that runs transactions
        whole = [{p for p in given[topic] if p.startswith(prefix)} for topic in TOPICS]
        assert whole[0] == whole[1], "a transaction is not whole"
        first = min(self.moved, default=at["version"] + 1) - 1
        moves = at["version"] - first
        assert len(self.moved) <= moves == len(whole[0])

    def stop(self) -> None:
        self._stop.set()
        self.working.set()
        for thread in self._threads:
            thread.join(WAIT_S_MAX)


def answer_of(
    http: httpx.Client, urls: Sequence[str], method: str, path: str, body: Json = None
) -> Json:
    """Return the first successful answer of any server."""

    def answer() -> httpx.Response | None:
        for url in urls:
            with suppress(httpx.HTTPError):
                answer = http.request(method, url + path, json=body)
                if answer.status_code == 200:
                    return answer
        return None

    found = wait_until(answer, f"an answer to {method} {path}")
    assert found is not None
    return found.json() if found.content else None


def _kind(error: httpx.HTTPError) -> str:
    if isinstance(error, httpx.HTTPStatusError):
        return str(error.response.status_code)
    return type(error).__name__


def post(http: httpx.Client, url: str, body: Json) -> Json:
    """Return an answer. Raises `httpx.HTTPError` if a fault may explain that there is none."""
    answer = http.post(url, json=body)
    if answer.status_code not in (200, 503, 504, 409):
        raise AssertionError(answer.text)
    answer.raise_for_status()
    return answer.json() if answer.content else None
