"""A metadata store is opened by its URL, and a folder only once per process."""

import asyncio
from pathlib import Path

import pytest

from tms.core.errors import MetadataClosed
from tms.server.node import open_services
from tms.server.stores import open_metadata

pytestmark = pytest.mark.anyio


async def test_a_name_in_memory_is_one_store() -> None:
    first, second = await open_metadata("memory://shared"), await open_metadata("memory://shared")
    private = await open_metadata("memory://local")
    await first.put("/k", b"v")

    assert await second.exists("/k")
    assert not await private.exists("/k")
    for store in (first, second, private):
        await store.close()


async def test_a_folder_is_shared_in_the_process_and_keeps_its_values(tmp_path: Path) -> None:
    url = f"leveldb:{tmp_path / 'data'}"
    first, second = await asyncio.gather(open_metadata(url), open_metadata(url))
    await first.put("/kept", b"v")
    await first.put("/lost", b"", ephemeral=True)
    assert await second.exists("/lost")
    await first.close()
    assert await second.get_children("/") == ["kept"]
    await second.close()
    with pytest.raises(MetadataClosed):
        await second.get("/kept")

    again = await open_metadata(url)
    assert await again.get_children("/") == ["kept"]
    await again.close()


async def test_it_shares_the_folder_of_a_server_in_this_process(tmp_path: Path) -> None:
    url = f"leveldb:{tmp_path / 'data'}"
    services = await open_services(url)
    store = await open_metadata(url)
    await store.put("/own/k", b"v")
    await store.close()
    await services.close()

    store = await open_metadata(url)
    assert await store.get_children("/own") == ["k"]
    await store.close()


@pytest.mark.parametrize("url", ["", "leveldb:", "memory:", "redis://host/x"])
async def test_another_url_is_refused_with_the_expected_form(url: str) -> None:
    with pytest.raises(ValueError, match="give memory"):
        await open_metadata(url)
