"""Clients of a cluster that work in a group with dead letters, and schedule and cancel messages.

In the end each order was settled once: acknowledged, or as a dead letter, and once more for each
time that it was redriven. Each scheduled message was published once, or cancelled, or waits. A
request without an answer may have been carried out or not, at any time.
"""

import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import httpx

from tests.faults.hbase.cluster_clients import TIMEOUT_S, Clients, Json, Work, base_of, post
from tests.waiting import wait_until

QUEUE_TOPICS = ORDERS, DEAD, LATER = "orders", "orders--dead", "later"
GROUP = "billing"
_AT_ONCE = 5
_LATER_S = 86_400
_SETTINGS = {
    "kind": "shared",
    "lease_s": 2,
    "retry_s": 0,
    "attempts_max": 2,
    "dead_letters_max": 10_000,
}
Ask = Callable[..., Json]
"""Returns the first successful answer of any server."""


class QueueClients(Clients):
    """Threads with a group and a schedule in one namespace."""

    def __init__(self, urls: Sequence[str], namespace: str, ask: Ask) -> None:
        """Create the topics and the group, and start the threads."""
        self._ask = ask
        self._topics = base_of(namespace)
        self._chance = random.Random(namespace)
        ask("PUT", f"{self._topics}/{ORDERS}")
        ask("PUT", f"{self._topics}/{LATER}")
        ask("PUT", f"{self._topics}/{ORDERS}/subscriptions/{GROUP}", _SETTINGS)
        self.ordered: list[str] = []
        self.acked, self.maybe_acked = Counter[str](), Counter[str]()
        """How often, by message id."""
        self.redriven, self.maybe_redriven = Counter[str](), Counter[str]()
        self.scheduled: dict[str, str] = {}
        """Ids of messages that were certainly scheduled, by payload."""
        self.committed_later: set[str] = set()
        """Payloads that commits certainly scheduled, all due soon."""
        self.far: set[str] = set()
        """Payloads that are due after the test, perhaps not scheduled."""
        self.cancelled: set[str] = set()
        self.missed: set[str] = set()
        """Payloads whose cancellation found that they were published."""
        self.maybe_cancelled: set[str] = set()
        self.refused: set[str] = set()
        """Payloads of transactions that were rolled back."""
        super().__init__(urls, namespace, pause_s=0.02)

    def works(self, publishers: int) -> Sequence[Work]:
        """Return what the threads do."""
        group = [self._order, self._work_off, self._work_off, self._redrive]
        return [*group, self._schedule, self._schedule_in_commit, self._cancel]

    # -- a group

    def _order(self, http: httpx.Client, url: str, name: str) -> None:
        names = [f"{name}.{each}" for each in range(3)]
        post(http, f"{url}{self._topics}/{ORDERS}/publish", {"messages": names})
        self.note(self.ordered, *names)

    def _work_off(self, http: httpx.Client, url: str, name: str) -> None:
        """Take orders; acknowledge, nack or reject them, or be silent until their lease is over."""
        path = f"{url}{self._topics}/{ORDERS}/subscriptions/{GROUP}"
        member = f"m-{name.partition('.')[0]}"
        taken = post(http, f"{path}/take", {"member": member, "messages": _AT_ONCE})
        for message in taken["messages"]:
            part: Json = {"delivery": taken["delivery"], "ids": [message["id"]]}
            kind = sum(map(int, message["payload"].split("."))) % 6
            if kind == 0:
                continue
            if kind in (1, 2):
                nack = {**part, "reason": "no such customer", "dead": kind == 1}
                post(http, f"{path}/settle", {"member": member, "nacks": [nack]})
                continue
            self._acknowledge(http, path, member, part)

    def _acknowledge(self, http: httpx.Client, path: str, member: str, part: Json) -> None:
        [message_id] = part["ids"]
        with self._lock:
            self.maybe_acked[message_id] += 1
        settled = post(http, f"{path}/settle", {"member": member, "acks": [part]})
        with self._lock:
            self.maybe_acked[message_id] -= 1
            self.acked[message_id] += settled["settled"]

    def _redrive(self, http: httpx.Client, url: str, name: str) -> None:
        del name
        path = f"{url}{self._topics}/{ORDERS}/subscriptions/{GROUP}/dead"
        answer = http.get(f"{path}?limit=20")
        answer.raise_for_status()
        letters = answer.json()["dead_letters"]
        if not letters:
            return
        letter = self._chance.choice(letters)
        message_id = letter["message_id"]
        with self._lock:
            self.maybe_redriven[message_id] += 1
        outcome = post(http, f"{path}/redrive", {"ids": [letter["id"]]})
        assert not outcome["expired"]
        with self._lock:
            self.maybe_redriven[message_id] -= 1
            self.redriven[message_id] += outcome["redriven"]

    # -- a schedule

    def _schedule(self, http: httpx.Client, url: str, name: str) -> None:
        after = self._chance.choice((0, 0.05, 1, 3, _LATER_S))
        names = [f"{name}.{each}" for each in range(2)]
        if after == _LATER_S:
            self.far.update(names)
        path = f"{url}{self._topics}/{LATER}/schedule?deliver_after={after}"
        ids = post(http, path, {"messages": names})["ids"]
        self.scheduled.update(zip(names, ids, strict=True))
        self.note([], *names)

    def _schedule_in_commit(self, http: httpx.Client, url: str, name: str) -> None:
        start = f"{url}/v1/transactions?codec=false&namespace={self._namespace}"
        started = post(http, start, {"timeout_s": TIMEOUT_S})
        transaction = f"{url}/v1/transactions/{started['transaction_id']}"
        later = {"namespace": self._namespace, "topic": LATER, "messages": [name]}
        body = {"schedule": [{**later, "deliver_after": self._chance.choice((0, 0.5))}]}
        if self._chance.random() < 0.2:
            self.refused.add(name)
            post(http, f"{transaction}/abort", {})
            answer = http.post(f"{transaction}/commit", json=body)
            assert answer.status_code != httpx.codes.OK, "committed after a rollback"
            return
        post(http, f"{transaction}/commit", body)
        self.committed_later.add(name)
        self.note([], name)

    def _cancel(self, http: httpx.Client, url: str, name: str) -> None:
        """Cancel one of the last scheduled messages, often at the moment when it is due."""
        del name
        ended = self.cancelled | self.missed
        waiting = [each for each in list(self.scheduled)[-50:] if each not in ended]
        if not waiting:
            return
        payload = self._chance.choice(waiting)
        was_in_doubt = payload in self.maybe_cancelled
        self.maybe_cancelled.add(payload)
        path = f"{url}{self._topics}/{LATER}/scheduled/{self.scheduled[payload]}"
        answer = http.delete(path)
        if answer.status_code == httpx.codes.NOT_FOUND:
            if not was_in_doubt:
                self.missed.add(payload)
                self.maybe_cancelled.remove(payload)
            return
        answer.raise_for_status()
        self.cancelled.add(payload)

    # -- what remains

    def check_queues(self) -> dict[str, int]:
        """Work off everything while the clients are paused, and compare it; return counts."""
        self.pause()
        assert not self.broken
        through = self._drain()
        orders = self._polled(ORDERS)
        names = {message["payload"] for message in orders}
        assert len(names) == len(orders), "an order is there twice"
        assert names >= set(self.ordered), "an acknowledged order is lost"
        # A request without an answer may have published more since.
        ids = [message["id"] for message in orders if message["id"] <= through]

        def unsettled() -> list[str]:
            """The flush that settles a message by its dead letter may still be written."""
            dead.clear()
            dead.update([letter["headers"]["tms-dead-id"] for letter in self._polled(DEAD)])
            return [
                each
                for each in ids
                if self.acked[each] + self.maybe_acked[each] + dead[each] < 1 + self.redriven[each]
            ]

        dead = Counter[str]()
        wait_until(lambda: not unsettled(), "each order is acknowledged, or is a dead letter")
        assert dead.keys() <= {message["id"] for message in orders}
        for each in ids:
            redriven_max = self.redriven[each] + self.maybe_redriven[each]
            settled = self.acked[each] + dead[each]
            assert settled <= 1 + redriven_max, (each, self.acked[each], dead[each], redriven_max)
        counts = {"orders": len(orders), "dead_letters": dead.total(), **self._check_schedule()}
        self.working.set()
        return counts

    def _drain(self) -> str:
        """Acknowledge the rest; return the last id that the group has read."""
        group = f"{self._topics}/{ORDERS}/subscriptions/{GROUP}"

        def is_drained() -> str | None:
            taken = self._ask("POST", f"{group}/take", {"member": "last", "messages": 1_000})
            for message in taken["messages"]:
                part = {"delivery": taken["delivery"], "ids": [message["id"]]}
                body = {"member": "last", "acks": [part]}
                # Other servers are asked too if one does not answer: then it may be done before.
                with self._lock:
                    self.maybe_acked[message["id"]] += 1
                self._ask("POST", f"{group}/settle", body)
            state = self._ask("GET", group)["state"]
            return state["through"] if state["open"] == state["unread"] == 0 else None

        found = wait_until(is_drained, "the group is worked off")
        assert found is not None
        return found

    def _polled(self, topic: str) -> list[Any]:
        path = f"{self._topics}/{topic}/poll?isolation=committed"
        found: list[Any] = self._ask("POST", path, {"limit": 1_000_000})
        return found

    def _check_schedule(self) -> Mapping[str, int]:
        scheduled = f"{self._topics}/{LATER}/scheduled"

        def are_published() -> bool:
            """A message whose publication is being written is neither listed nor polled."""
            first = self._ask("GET", f"{scheduled}?limit=1")
            published.clear()
            published.update([each["payload"] for each in self._polled(LATER)])
            return expected <= published.keys() and (not first or first[0]["payload"] in self.far)

        expected = self.scheduled.keys() - self.far - self.maybe_cancelled
        expected |= self.missed | self.committed_later
        published = Counter[str]()
        wait_until(are_published, "all that is due is published")
        waiting = Counter[str]()
        page = self._ask("GET", f"{scheduled}?limit=1000")
        while page:
            waiting.update([each["payload"] for each in page])
            page = self._ask("GET", f"{scheduled}?limit=1000&after={page[-1]['id']}")
        assert max(published.values(), default=1) == 1, "a scheduled message is published twice"
        assert max(waiting.values(), default=1) == 1
        assert not published.keys() & waiting.keys()
        there = published.keys() | waiting.keys()
        assert not self.cancelled & there, "a cancelled message is published, or waits"
        assert not self.refused & there, "a message of a rolled back commit is published"
        assert (self.scheduled.keys() & self.far) - self.maybe_cancelled <= there, "lost"
        assert not self.far & published.keys(), "published too early"
        return {"published_later": len(published), "cancelled": len(self.cancelled)}
