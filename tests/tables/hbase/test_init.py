"""`tms init`, and the error of `tms serve` for a store that was not created."""

import msgspec
import pytest

from dev.hbase.servers import HBaseServers
from tables.hbase.creation import Created
from tables.hbase.layout import Place
from tests.cli.conftest import run_command
from tms.cli.init import _of_memory
from tms.core.values.shards import Sharding


@pytest.mark.slow
def test_init_creates_the_tables_once(servers: HBaseServers, place: Place) -> None:
    url = f"hbase://{servers.gateway}/{place.prefix}init"
    code, out, err = run_command(
        *("init", "--store", f"{url}?buckets=2", "--admin", servers.admin, "--json")
    )
    assert (code, err) == (0, "")
    assert msgspec.json.decode(out)["buckets"] == 2
    assert f"{place.prefix}init_message" in msgspec.json.decode(out)["created"]

    code, out, err = run_command("init", "--store", url)
    assert (code, err) == (0, "")
    assert out.splitlines() == [
        "All tables existed already.",
        "Each table has 2 buckets.",
        *_of_memory(Created(2, [], {}).regions),
        f"Now: tms serve --store {url}",
    ]

    code, out, err = run_command("init", "--store", f"{url}?buckets=3")
    assert (code, out) == (1, "")
    assert "it was created with 2 buckets, which cannot be changed: give ?buckets=2" in err


@pytest.mark.slow
def test_without_a_gateway_that_splits_it_says_how_to_split(place: Place) -> None:
    url = f"hbase://{place.host}:{place.port}/{place.prefix}whole?buckets=2"
    code, out, _ = run_command("init", "--store", url)

    assert code == 0
    assert f"""  split '{place.prefix}whole_message', "\\x01\"""" in out.splitlines()


def test_the_regions_are_counted_and_many_are_warned_of() -> None:
    assert Created(1, [], {}, Sharding(16)).regions == 97
    assert Created(16, [], {}).regions < 97
    [told] = _of_memory(97)
    assert "97 regions of this store, which need about 485 MiB" in told
    assert _of_memory(490)[1].startswith("Warning: those are many.")


def test_other_stores_need_none() -> None:
    code, out, err = run_command("init", "--store", "memory:")

    assert (code, out) == (2, "")
    assert err == "memory: needs no tables: `tms serve` creates everything there.\n"


def test_a_url_that_is_wrong_is_reported_with_the_expected_form() -> None:
    code, _, err = run_command("init", "--store", "hbase://h:1/tms?bucket=2")

    assert code == 2
    assert "give hbase://HOST:PORT/PREFIX, if needed with ?buckets=1 to 128 at the end" in err
    code, _, err = run_command("init", "--store", "hbase://h:1/tms", "--admin", "h")
    assert code == 2
    assert "give HOST:PORT" in err


def test_no_gateway_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMS_HBASE_RETRY_S", "0")
    code, _, err = run_command("init", "--store", "hbase://127.0.0.1:1/tms")

    assert code == 6
    assert "Could not connect" in err
