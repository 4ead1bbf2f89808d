"""The harm that an authenticated caller can do to another one, checked against the promises.

Eve has a token, topics and subjects of her own, and may start transactions. She sends each kind of
hostile requests for a minute, from a process of her own, over many connections. In the meantime Ann
publishes, polls, begins transactions and registers schemas, one request after the other. The
promises: Ann is never refused; each of her sequences is committed once; she gets each acknowledged
message once and in order; and her schemas get ids of their own and are returned unchanged. In the
end Eve's token is revoked, and all of her requests end. If a promise is broken, the exit code is 1.
"""

import itertools
import json
import multiprocessing
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from http import HTTPStatus
from multiprocessing.queues import SimpleQueue
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from bench.hostile import send_all
from bench.memory import Peak
from bench.rounds import FULL, Effort
from bench.servers import Server, tms_server
from bench.table import Table, mebibytes, rate
from bench.victim import Caller, Victim
from tms.security.tokens import new_token

_KIND_S = 65.0
_KIND_QUICK_S = 13.0
_ENDS_S_MAX = 6.0
"""The time within which polls must end after their token was revoked."""
_POLLS = 50
_SETTLED_S = 2.0
_ALONE_S = 5.0
_GROWTH_MAX = 600_000_000
"""In bytes, for a run of any length: arriving bodies, queued writes, and changes may take 64 MiB
each, LevelDB's buffers as much, and the allocator keeps memory that was used."""
_FUTURE = 2**41
"""In ms since 1970: there are no messages from this time on."""
_NAMESPACE = "/v1/namespaces/default"
_EVIL = f"{_NAMESPACE}/topics/evil"
_POSITIONS = f"{_NAMESPACE}/positions"
_NAMES = [f"evil-{number}" for number in range(10_000)]
_TRANSACTIONS = "/v1/transactions"
_SUBJECTS = "/v1/registry/subjects"
_COLUMNS = ("eve sends", "requests/s", "answers", "p99 ms", "register ms", "refused", "anonymous")
_OF_TOPICS = ["publish", "consume", "subscribe", "manage"]
_OF_SUBJECTS = ["read", "write", "compatibility", "delete"]
_SMALL_BOUNDS = {
    "connections-max": 300,
    "transaction-owners-max": 2_000,
    "transactions-in-progress-max": 1_000,
    "cache-bytes-max": 8 * 1024 * 1024,
}
"""Small, so that they are reached within the time of a kind."""
_SMALL_LIMITS = {"transaction_changes_kept_bytes_max": 64 * 1024 * 1024}
"""The same for limits that users cannot set."""
_HUGE = 10**4300
_IDS = (2**31 - 1, 2**31, 2**32, _HUGE, 0, -1, 2**30, 2**30 + 1)
_SLOW = {
    "type": "object",
    "patternProperties": {"^(a+)+$": {}},
    "additionalProperties": False,
    "properties": {"a" * 40 + "!": {}},
}
"""Matching its property against its pattern takes practically for ever."""


class Kind(NamedTuple):
    """Requests of one kind."""

    make: Callable[[int, str], bytes]
    """Builds a request from a number and Eve's token."""
    at_once: int = 64
    held_s: float = 0
    then: Callable[[bytes, str], bytes] | None = None
    """Builds the next request from an answer and Eve's token."""


def _ask(method: str, path: str, token: str, body: object = None, *, spelled: str = "") -> bytes:
    content = b"" if body is None else json.dumps(body).encode()
    fields = (
        f"{method} {path} HTTP/1.1",
        "Host: 127.0.0.1",
        f"Authorization: {spelled or f'Bearer {token}'}",
        "Content-Type: application/json",
        f"Content-Length: {len(content)}",
    )
    return "".join(f"{each}\r\n" for each in (*fields, "")).encode() + content


def _spelling(number: int, token: str) -> str:
    letters = enumerate("bearer")
    scheme = "".join(c.upper() if number >> at & 1 else c for at, c in letters)
    return f"{scheme}{' ' * (1 + number // 64 % 1000)}{token}"


def _with_owner(owner: str, number: int, token: str) -> bytes:
    body = {"topics": {"evil": ["x"]}, "owner": owner, "sequence": number}
    return _ask("POST", f"{_NAMESPACE}/publish", token, body)


def _forget(number: int, token: str) -> bytes:
    return _ask("DELETE", f"{_TRANSACTIONS}/owners?owner=till", token, {} if number % 2 else None)


def _imported(number: int, token: str) -> bytes:
    subject = f"evil-imported-{number % 500}"
    if number % 3 == 0:
        return _ask("PUT", f"/v1/registry/mode/{subject}", token, {"mode": "IMPORT"})
    given = _IDS[number % len(_IDS)]
    number_text = str(given) if given != _HUGE else f"1{'0' * 4300}"
    body = f'{{"schema": "\\"string\\"", "id": {number_text}, "version": {number_text}}}'.encode()
    head = _ask("POST", f"{_SUBJECTS}/{subject}/versions", token).partition(b"Content-Length")[0]
    return head + b"Content-Length: %d\r\n\r\n" % len(body) + body


def _unfinished_body(number: int, token: str) -> bytes:
    head = _ask("POST", f"{_EVIL}/publish?{number}", token).partition(b"Content-Length")[0]
    return head + b"Content-Length: 8000000\r\n\r\n" + b" " * 1_000_000


def _start(number: int, token: str) -> bytes:
    return _ask(
        "POST", f"{_TRANSACTIONS}?codec=false", token, {"timeout_s": 3600, "client": f"{number}"}
    )


def _changes(answer: bytes, token: str) -> bytes:
    """Return a request with 2 MB of changes of the transaction that has just begun."""
    body = json.loads(answer.partition(b"\r\n\r\n")[2])
    name = body["transaction_id"]
    changes = [f"{name} {number} {'x' * 1_000}" for number in range(2_000)]
    return _ask("POST", f"{_TRANSACTIONS}/{name}/can-commit", token, {"changes": changes})


def _ask_twice(token: str) -> bytes:
    """Return a publish whose body names 16,000 fields, and the last of them twice."""
    fields = json.dumps({f"n{number}": 0 for number in range(16_000)})[:-1] + ', "n15999": 0}'
    head = _ask("POST", f"{_EVIL}/publish", token).partition(b"Content-Length")[0]
    return head + f"Content-Length: {len(fields)}\r\n\r\n{fields}".encode()


def _pattern(number: int, token: str) -> bytes:
    subject = f"evil-{number % 8}"
    # The first one is valid, and later ones are compared with it.
    schema = {**_SLOW, "properties": {}} if number < 8 else {**_SLOW, "title": f"{number}"}
    body = {"schemaType": "JSON", "schema": json.dumps(schema)}
    return _ask("POST", f"{_SUBJECTS}/{subject}/versions", token, body)


KINDS: Mapping[str, Kind] = {
    "names of 60 KB": Kind(
        lambda n, token: _ask("POST", f"{_EVIL}{n}{'x' * 60_000}/publish", token, {})
    ),
    "spellings of her token": Kind(
        lambda n, token: _ask("GET", "/v1/auth/whoami", token, spelled=_spelling(n, token))
    ),
    "short names, each another": Kind(lambda n, token: _ask("GET", f"{_EVIL}{n}", token)),
    "owners, each another": Kind(lambda n, token: _with_owner(f"eve {n}", 1, token)),
    "sequences of Ann's owner": Kind(lambda n, token: _with_owner("till", 10**9 + n, token)),
    "forget Ann's owner": Kind(_forget),
    "patterns that try all": Kind(_pattern),
    "positions of 10,000 topics": Kind(
        lambda _, token: _ask("POST", _POSITIONS, token, {"topics": _NAMES}), 8
    ),
    "16,000 names, the last twice": Kind(lambda _, token: _ask_twice(token), 8),
    "imported ids": Kind(_imported),
    "topics": Kind(lambda n, token: _ask("PUT", f"{_EVIL}-{n}", token, {})),
    "polls that wait": Kind(
        lambda n, token: _ask("POST", f"{_EVIL}/poll?wait=60&{n}", token, {}), 400, 5.0
    ),
    "bodies that never end": Kind(_unfinished_body, 100, 5.0),
    "publishes of 1 MB": Kind(
        lambda n, token: _ask("POST", f"{_EVIL}/publish", token, {"messages": [f"{n}" * 200_000]})
    ),
    "changes that are kept": Kind(_start, then=_changes),
    "long transactions": Kind(
        lambda n, token: _ask("POST", _TRANSACTIONS, token, {"type": "long", "client": f"{n}"})
    ),
}
"""The kinds of requests that Eve sends."""


def _send(kind: str, token: str, seconds: float, url: str, answers: "SimpleQueue[str]") -> None:
    """Send requests of a kind for `seconds`. It runs in a process of its own."""
    made = KINDS[kind]
    then = made.then
    end = time.perf_counter() + seconds

    def requests() -> Iterator[bytes]:
        for number in itertools.count():
            if time.perf_counter() > end:
                return
            yield made.make(number, token)

    address = urlsplit(url)
    assert address.hostname is not None
    assert address.port is not None
    counts = send_all(
        requests(),
        address.hostname,
        address.port,
        at_once=made.at_once,
        held_s=made.held_s,
        then=None if then is None else lambda answer: then(answer, token),
    )
    answers.put(json.dumps(counts))


def _under(server: Server, victim: Victim, kind: str, token: str, seconds: float) -> Counter[str]:
    """Let the victim work while Eve sends a kind, and return the answers to Eve."""
    spawned = multiprocessing.get_context("spawn")
    answers = spawned.SimpleQueue()
    sending = spawned.Process(target=_send, args=(kind, token, seconds, server.url, answers))
    sending.start()
    try:
        victim.work_while(sending.is_alive)
    finally:
        sending.kill()
        sending.join()
    if sending.exitcode:
        raise RuntimeError(f"sending {kind} failed")
    return Counter(json.loads(answers.get()))


def _print(
    table: Table, kind: str, victim: Victim, memory: int, *, answers: str = "-", per_s: float = 0
) -> None:
    table.row(
        kind,
        rate(per_s),
        answers,
        f"{1000 * _percentile(victim.publish_s):.0f}",
        f"{1000 * _percentile(victim.register_s):.0f}",
        f"{len(victim.refused)}",
        mebibytes(memory),
    )
    for problem in (*victim.refused[:3], *victim.broken[:10]):
        print(f"    {problem}")


def _percentile(took_s: list[float]) -> float:
    return sorted(took_s)[int(0.99 * (len(took_s) - 1))]


def _granted(root: Caller, who: str, topics: str, subjects: str) -> tuple[str, str]:
    """Allow a principal topics, subjects and transactions; return a token and its id."""
    rules = (
        {"kind": "topic", "namespace": "default", "name": topics, "actions": _OF_TOPICS},
        {"kind": "subject", "name": subjects, "actions": _OF_SUBJECTS},
        {"kind": "server", "actions": ["transact"]},
    )
    for rule in rules:
        root.sure("POST", "/v1/auth/rules", {"who": who, **rule})
    made = root.sure("POST", "/v1/auth/tokens", {"principal": who})
    return made["token"], made["id"]


def _revoked(root: Caller, url: str, token: str, token_id: str) -> float:
    """Revoke a token while its polls wait; return the seconds until the last of them ended."""

    def poll() -> tuple[int, float]:
        status, _ = Caller(url, token).ask("POST", f"{_EVIL}/poll?wait=60", {"startFrom": _FUTURE})
        return status, time.perf_counter()

    with ThreadPoolExecutor(_POLLS) as pool:
        polls = [pool.submit(poll) for _ in range(_POLLS)]
        time.sleep(_SETTLED_S)
        if any(each.done() for each in polls):
            raise RuntimeError(f"a poll does not wait: {[each.result() for each in polls]}")
        root.sure("DELETE", f"/v1/auth/tokens/{token_id}")
        begun = time.perf_counter()
        ended = [each.result() for each in polls]
    if {status for status, _ in ended} != {HTTPStatus.UNAUTHORIZED}:
        raise RuntimeError(f"polls of a revoked token ended otherwise than by 401: {ended}")
    return max(at for _, at in ended) - begun


def run(effort: Effort, folder: Path, peer: str | None, run_name: str) -> None:  # noqa: ARG001
    """Measure, and print the figures and each broken promise; then raise `SystemExit`."""
    seconds = _KIND_S if effort is FULL else _KIND_QUICK_S
    root_token, kept = new_token("root")
    token_flags = ("--auth-tokens", f"{kept.id}:{kept.sha256.hex()}:root")
    flags = ("--auth", "required", "--superusers", "root", *token_flags)
    bounds = [part for name, at in _SMALL_BOUNDS.items() for part in (f"--{name}", f"{at}")]
    broken: list[str] = []
    with tms_server(folder / "shared", *flags, *bounds, limits=_SMALL_LIMITS) as server:
        root = Caller(server.url, root_token)
        root.sure("PUT", _EVIL, {})
        token, token_id = _granted(root, "eve", "evil*", "evil*")
        victim = Victim(server.url, _granted(root, "ann", "orders", "ann*")[0])
        table = Table("A hostile neighbour", _COLUMNS)

        def alone(kind: str, for_s: float) -> int:
            end = time.perf_counter() + for_s
            victim.work_while(lambda: time.perf_counter() < end)
            memory = server.memory()["RssAnon"]
            _print(table, kind, victim, memory)
            return memory

        before = alone("nothing", _ALONE_S)
        refused = 0
        for kind in KINDS:
            peak = Peak(server)
            answers = _under(server, victim, kind, token, seconds)
            memory = peak.end()["RssAnon"]
            statuses = "; ".join(f"{status} {count}" for status, count in answers.most_common(4))
            per_s = answers.total() / seconds
            _print(table, kind, victim, memory, answers=statuses, per_s=per_s)
            refused += len(victim.refused)
        took_s = _revoked(root, server.url, token, token_id)
        grown = alone("nothing any more", _ALONE_S) - before
        broken += victim.broken
    print(f"\nIt has {mebibytes(grown)} more than before; allowed are {mebibytes(_GROWTH_MAX)}.")
    print(f"{_POLLS} polls of a revoked token ended within {took_s:.1f} s.")
    if refused:
        broken.append(f"Ann was refused {refused} times")
    if grown > _GROWTH_MAX:
        broken.append(f"the server kept {mebibytes(grown)}")
    if took_s > _ENDS_S_MAX:
        broken.append(f"polls of a revoked token went on for {took_s:.0f} s")
    print("\n".join(("Not as promised:", *broken)) if broken else "All promises were kept.")
    if broken:
        raise SystemExit(1)
