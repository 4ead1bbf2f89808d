"""HTTP's own conventions: problems (RFC 9457), ETag, RateLimit."""

import pytest

from api.http.errors import answer_of
from tests.api.rest import TOPIC, Rest
from tms.core.errors import RateExceeded

pytestmark = pytest.mark.anyio


async def test_an_error_is_a_problem_if_asked(rest: Rest) -> None:
    accept = {"accept": "application/json, application/problem+json", "x-request-id": "r-1"}
    answer = await rest.http.get(TOPIC, headers=accept)
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json() == {
        "type": "urn:tms:error:topic_not_found",
        "title": "The topic does not exist.",
        "status": 404,
        "code": "topic_not_found",
        "context": {"topic": "ns:t"},
        "instance": "urn:tms:request:r-1",
    }


async def test_an_unchanged_topic_is_not_sent_again(rest: Rest) -> None:
    await rest.create()
    first = await rest.http.get(TOPIC)
    tag = first.headers["etag"]
    for known in (tag, f'"x", W/{tag}', "*"):
        again = await rest.http.get(TOPIC, headers={"if-none-match": known})
        assert (again.status_code, again.content) == (304, b"")
        assert again.headers["etag"] == tag
    await rest.http.put(f"{TOPIC}/properties", json={"ttl": 60})
    changed = await rest.http.get(TOPIC, headers={"if-none-match": tag})
    assert changed.status_code == 200
    assert changed.headers["etag"] != tag


def test_a_refused_rate_says_when_to_try_again() -> None:
    headers = dict(answer_of(RateExceeded(retry_after_s=7)).headers)
    assert headers[b"retry-after"] == b"7"
    assert headers[b"ratelimit"] == b'"tms";r=0;t=7'
