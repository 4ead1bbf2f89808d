"""An operator's wishes: which server should lead which shard. One value of the metadata store."""

from collections.abc import Mapping

from tms.cluster.instances import ROOT
from tms.core.errors import BadVersion, ValueUnreadable
from tms.metadata.cache import JsonCodec
from tms.metadata.interface import NEW, MetadataStore

_PATH = f"{ROOT}/wishes"
_codec = JsonCodec(dict[int, int])


async def wishes_of(store: MetadataStore) -> tuple[dict[int, int], int]:
    """Return the instance wished for each shard, and the value's version (`NEW` if there is none).

    Raises `Unavailable`, `ValueUnreadable`.
    """
    value = await store.get(_PATH)
    if value is None:
        return {}, NEW
    try:
        return _codec.decode(value.value), value.stat.version
    except ValueError as error:
        raise ValueUnreadable(path=_PATH, reason=str(error)) from error


async def change_wishes(
    store: MetadataStore, changes: Mapping[int, int | None]
) -> Mapping[int, int]:
    """Change the wishes of some shards; None deletes one. Return all wishes. Raises as above."""
    while True:
        wishes, version = await wishes_of(store)
        for shard, instance in changes.items():
            wishes.pop(shard, None)
            if instance is not None:
                wishes[shard] = instance
        try:
            await store.put(_PATH, _codec.encode(wishes), version)
        except BadVersion:
            continue  # another writer was faster
        return wishes
