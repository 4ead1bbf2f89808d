"""Copy the schema log to the TMS of a second site, and continue as it grows.

    python examples/mirror_schemas.py http://FIRST:11015 http://SECOND:11015

The position in the first log is kept in a file, and written after the messages are copied. If this
program ends in between, the copy gets some messages twice, which its readers ignore. Only the parts
of the service write its topics, so this program names the registry as its part. With
authentication, set TMS_TOKEN to a token whose principal may write system:_schemas.
"""

import json
import os
import sys
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

LOG = "/v1/namespaces/system/topics/_schemas"
HEADERS = {"TMS-Part": "registry", "Content-Type": "application/json"}
PROPERTIES = {"ttl": 2**31 - 1, "cleanup": "compact"}
AT_ONCE = 500
WAIT_S = 10
NOT_FOUND = 404


def mirror(first: str, second: str, position: Path) -> None:
    """Copy messages after the position, and new ones, until Ctrl-C."""
    try:
        ask("GET", f"{second}{LOG}")
    except HTTPError as error:
        if error.code != NOT_FOUND:
            raise
        ask("PUT", f"{second}{LOG}", PROPERTIES)
    while True:
        copy(first, second, position)


def copy(first: str, second: str, position: Path) -> None:
    """Copy the next messages, in their order; wait for some if there are none."""
    asked: dict[str, object] = {"limit": AT_ONCE}
    if position.exists():
        asked |= {"startFrom": position.read_text(), "inclusive": False}
    found = ask("POST", f"{first}{LOG}/poll?wait={WAIT_S}", asked)
    if found:
        messages = [{"key": each["key"], "payload": each["payload"]} for each in found]
        ask("POST", f"{second}{LOG}/publish", {"messages": messages})
        draft = position.with_suffix(".draft")
        draft.write_text(found[-1]["id"])
        draft.replace(position)


def ask(method: str, url: str, body: dict[str, Any] | None = None) -> Any:
    """Return what a server answers. Raises `HTTPError` unless that is 200."""
    token = os.environ.get("TMS_TOKEN")
    headers = {**HEADERS, "Authorization": f"Bearer {token}"} if token else HEADERS
    data = None if body is None else json.dumps(body).encode()
    with urlopen(Request(url, data, headers, method=method), timeout=3 * WAIT_S) as answer:
        return json.loads(answer.read() or b"null")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: mirror_schemas.py URL-OF-THE-FIRST URL-OF-THE-SECOND")
    try:
        mirror(sys.argv[1], sys.argv[2], Path("schemas.position"))
    except KeyboardInterrupt:
        print("stopped; run it again to go on", file=sys.stderr)
