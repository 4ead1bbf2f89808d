"""The pages of transactions: what they show, to whom, and how a transaction is ended."""

import pytest

from tests.api.console.site import TOPIC
from tests.api.console.watched import Watched, watched
from tests.api.doors import ROOT, Doors, bearer
from tms.core.services.transactions import TransactionStatus
from tms.core.values.groups import Take
from tms.security.resources import Action

pytestmark = pytest.mark.anyio
HOSTILE = "<script>alert(1)</script>\x1b[31m\u202e"


async def test_those_in_progress_are_listed_with_who_waits(server: Watched) -> None:
    await server.services.subscriptions.create_subscription(TOPIC, "billing")
    await server.services.groups.create_group(TOPIC, "workers")
    oldest = await server.start(client="import", owner="job", sequence=7)
    await server.publish(b"a", pointer=oldest)
    server.passes(90)
    newest = await server.start(client="shop")

    page = await server.page("/transactions")
    assert page.index(f">{oldest}<") < page.index(f">{newest}<")
    assert "In progress: 2" in page
    assert all(told in page for told in ("import", "job #7", "1.5 min", "ns:t"))
    assert page.count(">billing</a>") == page.count(">workers</a>") == 1

    await server.services.groups.take(TOPIC, "workers", Take("m"))
    one = await server.page(f"/transactions/{oldest}")
    assert "ns:t billing</a>" in one
    assert one.count("stopped at this transaction") == 1
    assert "in progress" in one


async def test_they_come_in_pages(server: Watched) -> None:
    ids = [await server.start() for _ in range(130)]

    first = await server.page("/transactions")
    assert f">{ids[99]}<" in first
    assert f">{ids[100]}<" not in first
    assert "transactions?open=100" in first
    second = await server.page("/transactions", open="100")
    assert f">{ids[100]}<" in second
    assert f">{ids[99]}<" not in second
    assert "There are none." in await server.page("/transactions", open="999999999999")


async def test_one_is_invalidated_once_its_id_is_typed(server: Watched) -> None:
    holder = await server.start(client="holder")
    lost = await server.start(client="lost")
    await server.publish(b"a", pointer=lost)
    place = f"/transactions/{lost}"
    info = server.services.transactions.info

    wrong = await server.post(place, f"{place}/invalidate", typed=str(holder))
    assert wrong.status_code == 400
    assert (await info(lost)).status is TransactionStatus.IN_PROGRESS

    right = await server.post(place, f"{place}/invalidate", typed=str(lost))
    assert right.status_code == 303
    assert (await info(lost)).status is TransactionStatus.INVALID
    page = await server.page("/transactions")
    assert "Invalid: 1" in page
    assert "Held back by" in page
    assert f"transaction {holder}</a>" in page
    one = await server.page(place)
    assert "invalid" in one
    assert "<button>Invalidate" not in one

    again = await server.post("/transactions", f"{place}/invalidate", typed=str(lost))
    assert again.status_code in (403, 409)


async def test_hostile_names_do_nothing(server: Watched) -> None:
    started = await server.start(client=HOSTILE, owner=HOSTILE)

    for path in ("/transactions", f"/transactions/{started}"):
        page = await server.page(path)
        assert "<script>alert" not in page
        assert "\x1b" not in page
        assert "\u202e" not in page
        assert "\\u202e" in page
    await server.publish(b"a", pointer=started)
    server.passes(61)
    overview = await server.page()
    assert "wait for transaction" in overview
    assert "<script>alert" not in overview
    assert "\u202e" not in overview


async def test_a_transaction_that_never_was_is_reported_as_a_page(server: Watched) -> None:
    answer = await server.http.get("/console/transactions/12345")
    assert answer.status_code == 404
    assert answer.text.startswith("<!doctype html>")
    assert (await server.http.get("/console/transactions/x")).status_code == 400


async def test_a_forged_form_ends_nothing(server: Watched) -> None:
    started = await server.start()
    to = f"/console/transactions/{started}/invalidate"
    answer = await server.http.post(to, data={"typed": str(started)})
    assert answer.status_code == 403
    info = await server.services.transactions.info(started)
    assert info.status is TransactionStatus.IN_PROGRESS


async def test_a_read_only_console_has_no_button(anyio_backend: object) -> None:
    async with watched(is_read_only=True) as server:
        started = await server.start()
        place = f"/transactions/{started}"
        assert "<button>Invalidate" not in await server.page(place)
        answer = await server.post(place, f"{place}/invalidate", typed=str(started))
        assert answer.status_code == 403


async def test_whoever_may_not_operate_sees_no_list(guarded: tuple[Watched, Doors]) -> None:
    server, doors = guarded
    secret = await server.start(client="secret")
    assert (await server.http.get("/console/transactions")).status_code == 303
    await server.sign_in(await doors.token("stranger"))

    for path in ("/transactions", f"/transactions/{secret}"):
        answer = await server.http.get(f"/console{path}")
        assert answer.status_code == 403
        assert "secret" not in answer.text
    place = f"/transactions/{secret}/invalidate"
    assert (await server.post("/readers", place, typed=str(secret))).status_code == 403
    info = await server.services.transactions.info(secret)
    assert info.status is TransactionStatus.IN_PROGRESS


async def test_one_ends_its_own_and_those_of_others_if_it_may(
    guarded: tuple[Watched, Doors],
) -> None:
    server, doors = guarded
    await doors.allow("shop", [Action.TRANSACT])
    await doors.allow("operator", [Action.TRANSACT, Action.OPERATE])
    begun = await server.http.post(
        "/v1/transactions", headers=bearer(await doors.token("shop")), json={}
    )
    place = f"/transactions/{begun.json()['transaction_id']}"
    own_id = place.rpartition("/")[2]

    await server.sign_in(await doors.token("operator"))
    page = await server.page("/transactions")
    assert own_id in page
    assert "shop" in page
    assert (await server.http.get(f"/console{place}")).status_code == 403
    refused = await server.post("/transactions", f"{place}/invalidate", typed=own_id)
    assert refused.status_code == 403

    await server.sign_in(await doors.token("shop"))
    assert "<button>Invalidate" in await server.page(place)
    await server.sign_in(doors.tokens[ROOT])
    assert "<button>Invalidate" in await server.page(place)
    ended = await server.post(place, f"{place}/invalidate", typed=own_id)
    assert ended.status_code == 303
