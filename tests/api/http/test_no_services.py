"""An application without services answers what it can, and says that the rest is not here."""

import httpx
import pytest

from api.app import OPERATIONS
from api.http.application import Application
from api.http.context import context_of
from api.http.metrics import RestMetrics
from tests.api.rest import TOPIC, refusal, serving
from tms.core.limits import Limits

pytestmark = pytest.mark.anyio

ASKED: tuple[tuple[str, str, object], ...] = (
    ("POST", f"{TOPIC}/publish", {"messages": ["m"]}),
    ("POST", f"{TOPIC}/poll", {}),
    ("PUT", TOPIC, {}),
    ("PUT", f"{TOPIC}/subscriptions/s", None),
    ("POST", "/v1/transactions", {}),
    ("GET", "/v1/namespaces", None),
    ("GET", "/ready", None),
)


async def test_what_needs_a_service_is_answered_503() -> None:
    app = Application(context_of(Limits()), RestMetrics(), OPERATIONS)
    async with (
        serving(app, Limits()) as (url, _),
        httpx.AsyncClient(base_url=url, trust_env=False, verify=False) as http,
    ):
        for method, path, body in ASKED:
            answer = await http.request(method, path, json=body)
            assert refusal(answer) == (503, "no_leader"), path
        for path in ("/health", "/metrics"):
            assert (await http.get(path)).status_code == 200
