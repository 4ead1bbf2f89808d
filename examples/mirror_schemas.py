"""Copy the log of schemas to the TMS of a second site, and go on as it grows.

    python examples/mirror_schemas.py http://FIRST:11015 http://SECOND:11015

The position in the first log is kept in a file, and written after the copy has what was read:
should this end in between, the copy gets some messages twice, which its readers pass over. Topics
of the service are written by its parts alone, so this names the registry as its part. Where users
are asked who they are, set TMS_TOKEN to a token whose principal may write system:_schemas.
"""

import os
import sys
from pathlib import Path

import httpx

LOG = "/v1/namespaces/system/topics/_schemas"
HEADERS = {"TMS-Part": "registry"}
PROPERTIES = {"ttl": 2**31 - 1, "cleanup": "compact"}
AT_ONCE = 500
WAIT_S = 10


def mirror(first: str, second: str, position: Path) -> None:
    """Copy what is behind the position, and what comes, until Ctrl-C."""
    token = os.environ.get("TMS_TOKEN")
    headers = {**HEADERS, "Authorization": f"Bearer {token}"} if token else HEADERS
    with httpx.Client(headers=headers, timeout=3 * WAIT_S) as http:
        if http.get(f"{second}{LOG}").status_code == httpx.codes.NOT_FOUND:
            http.put(f"{second}{LOG}", json=PROPERTIES).raise_for_status()
        while True:
            copy(http, first, second, position)


def copy(http: httpx.Client, first: str, second: str, position: Path) -> None:
    """Copy the next messages, in their order; wait for some if there are none."""
    asked: dict[str, object] = {"limit": AT_ONCE}
    if position.exists():
        asked |= {"startFrom": position.read_text(), "inclusive": False}
    answer = http.post(f"{first}{LOG}/poll?wait={WAIT_S}", json=asked).raise_for_status()
    found = answer.json()
    if found:
        messages = [{"key": each["key"], "payload": each["payload"]} for each in found]
        http.post(f"{second}{LOG}/publish", json={"messages": messages}).raise_for_status()
        draft = position.with_suffix(".draft")
        draft.write_text(found[-1]["id"])
        draft.replace(position)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: mirror_schemas.py URL-OF-THE-FIRST URL-OF-THE-SECOND")
    try:
        mirror(sys.argv[1], sys.argv[2], Path("schemas.position"))
    except KeyboardInterrupt:
        print("stopped; run it again to go on", file=sys.stderr)
