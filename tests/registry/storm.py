"""Clients that register and delete schemas at several servers while the servers are killed.

All answers are recorded. In the end: no id ever meant two schemas, everything that was acknowledged
and not deleted exists, and all servers give the same answers.
"""

import random
import threading
from collections.abc import Sequence
from contextlib import suppress
from typing import Self

import httpx

from tests.registry.registries import fixed
from tests.waiting import WAIT_S_MAX, wait_until

CLIENTS = 4
SUBJECTS = 12
TIMEOUT_S = 15.0
S_MAX = WAIT_S_MAX
UNCERTAIN = (50001, 50002, 50003, 50004)
"""Codes of requests that may or may not be done, because servers are killed."""


class Storm:
    """Clients that send requests. A context manager; at its end they have stopped."""

    def __init__(self, urls: Sequence[str], seed: int) -> None:
        """Send the requests to the registries at `urls`."""
        self._urls = urls
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._next = 1
        self.done = 0
        """Requests that were answered with 200."""
        self.texts: dict[int, str] = {}
        """The text of each id, as clients received it."""
        self.wrong: list[str] = []
        self.kept: dict[str, tuple[str, int]] = {}
        """For each subject, its client's last answer: text and id. None were deleted."""
        self._threads = [
            threading.Thread(target=self._work, args=(random.Random(seed + number), number))
            for number in range(CLIENTS)
        ]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def until_more(self, count: int) -> None:
        """Return once this number of further requests were answered with 200."""
        wanted = self.done + count
        wait_until(lambda: self.done >= wanted, f"{count} more answers")

    def _new_text(self) -> str:
        with self._lock:
            self._next += 1
            return fixed(self._next)

    def _work(self, chance: random.Random, number: int) -> None:
        with httpx.Client(timeout=TIMEOUT_S, trust_env=False) as http:
            while not self._stop.is_set():
                url = chance.choice(self._urls)
                with suppress(httpx.HTTPError):
                    self._act(http, url, chance, number)

    def _act(self, http: httpx.Client, url: str, chance: random.Random, number: int) -> None:
        act = chance.random()
        own, shared = f"own-{number}-{chance.randrange(10**9)}", f"s{chance.randrange(SUBJECTS)}"
        if act < 0.4:
            text = self._new_text()
            schema_id = self._register(http, url, own, text)
            if schema_id is not None:
                self.kept[own] = text, schema_id
        elif act < 0.6:
            self._register(http, url, shared, fixed(1 + chance.randrange(5)))
        elif act < 0.8:
            permanent = "?permanent=true" if chance.random() < 0.5 else ""
            self._ask(http, "DELETE", f"{url}/subjects/{shared}{permanent}")
        elif self.texts:
            schema_id = chance.choice(list(self.texts))
            told = self._ask(http, "GET", f"{url}/schemas/ids/{schema_id}")
            if told is not None:
                self._note(schema_id, told["schema"])

    def _register(self, http: httpx.Client, url: str, subject: str, text: str) -> int | None:
        path = f"{url}/subjects/{subject}/versions"
        told = self._ask(http, "POST", path, {"schema": text})
        if told is None:
            return None
        self._note(told["id"], text)
        return int(told["id"])

    def _ask(self, http: httpx.Client, method: str, url: str, body: object = None) -> dict | None:  # type: ignore[type-arg]
        answer = http.request(method, url, json=body)
        if answer.status_code == 200:
            self.done += 1
            told = answer.json()
            return told if isinstance(told, dict) else None
        if answer.status_code == 500 and answer.json()["error_code"] not in UNCERTAIN:
            self.wrong.append(f"{method} {url}: {answer.text}")
        return None

    def _note(self, schema_id: int, text: str) -> None:
        with self._lock:
            if self.texts.setdefault(schema_id, text) != text:
                self.wrong.append(f"id {schema_id}: {self.texts[schema_id]} and {text}")

    def check(self) -> None:
        """Check what all servers answer now."""
        assert not self.wrong, self.wrong
        seen = []
        with httpx.Client(timeout=TIMEOUT_S, trust_env=False) as http:
            for url in self._urls:
                schemas = http.get(f"{url}/schemas?deleted=true").json()
                seen.append(
                    {
                        (each["subject"], each["version"]): (
                            each["id"],
                            each["schema"],
                            each["deleted"],
                        )
                        for each in schemas
                    }
                )
        assert all(each == seen[0] for each in seen)
        assert self.kept
        for subject, (text, schema_id) in self.kept.items():
            assert seen[0][subject, 1] == (schema_id, text, False)
        for schema_id, text, _ in seen[0].values():
            assert self.texts.get(schema_id, text) == text
