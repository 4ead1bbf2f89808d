"""A path means the same at the leader as at the follower, and both judge it alike."""

import pytest

from tests.api.cluster.standing_by import Second, leader, second
from tests.api.rest import Live
from tests.api.security.secured import Server, pair_of_servers

__all__ = ["leader", "second"]

pytestmark = pytest.mark.anyio

OK = 200
OPEN_PATHS = ("/%68ealth", "/health/", "/ping/", "/%70ing", "/?")
Answer = tuple[int, bytes]
Headers = dict[str, str]
PATHS = (
    "/docs/../v1/auth/rules",
    "/docs/./../v1/auth/rules",
    "/docs/%2e%2e/v1/auth/rules",
    "/health/../v1/namespaces/ns/topics",
    "/v1/namespaces/ns/topics/../../../auth/rules",
    "//x/v1/auth/rules",
    "//127.0.0.1:9/docs",
    "///docs",
    "/http://127.0.0.1:9/docs",
    "/./docs",
    "/docs/.",
    "/..",
    "/docs/",
    "/docs//",
    "/%64ocs",
    "/%2Fdocs",
    "/docs%2F",
    "/docs%00",
    "/%68ealth",
    "/health/",
    "/ping/",
    "/%70ing",
    "/openapi%2ejson",
    "/v1/%6eamespaces/ns/topics",
    "/v1/namespaces/ns/topics/a%2Fb",
    "/v1/namespaces/ns/topics/%C3%A9",
    "/v1/namespaces/ns/topics/%zz",
    "/v1/namespaces/ns/topics/a;b=c",
    '/a"b|c^d`{e}<f>\\g',
    "/?",
    "/v1/namespaces/ns/topics?x=%zz&y",
    '/docs?x="{}|',
)


async def answered(server: Second | Live | Server, path: str, headers: Headers) -> Answer:
    """Return the status, and the text of a refusal."""
    wire = await server.connect()
    await wire.send("GET", path, headers={**headers, "X-Request-Id": "one"})
    head = await wire.reader.readuntil(b"\r\n\r\n")
    status = int(head.split()[1])
    length = 0 if status == OK else int(head.lower().partition(b"content-length: ")[2].split()[0])
    body = await wire.reader.readexactly(length)
    await wire.close()
    return status, body


async def test_the_leader_is_asked_for_the_path_that_came(second: Second, leader: Live) -> None:
    for path in PATHS:
        assert await answered(second, path, {}) == await answered(leader, path, {}), path


@pytest.mark.parametrize("are_docs_open", [False, True])
async def test_nobody_is_let_in_at_the_one_and_not_at_the_other(
    anyio_backend: object, *, are_docs_open: bool
) -> None:
    async with pair_of_servers(are_docs_open=are_docs_open) as pair:
        ann = await pair.token("ann")
        for headers in ({}, ann, pair.root):
            for path in PATHS:
                found = [await answered(server, path, headers) for server in pair.servers.values()]
                assert found[0] == found[1], (path, found)
                is_refused = found[0][0] in (400, 401)
                assert headers or are_docs_open or is_refused or path in OPEN_PATHS, path


async def test_what_is_not_ascii_is_refused(second: Second) -> None:
    for target in ("/é", "/v1/namespaces?é", "/\x7f"):
        wire = await second.connect()
        wire.writer.write(f"GET {target} HTTP/1.1\r\nhost: a\r\n\r\n".encode())
        assert (await wire.answer())[0] == 400, target
        await wire.close()
