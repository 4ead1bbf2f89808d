"""The recorded format of a store: a JSON object with a number, and features.

    {"format": n, ...}                            n as long as no feature was used
    {"features": [...], "format": n + 1, ...}     from the first feature on; the names ascend, and
                                                  none is the same as no list
    {"by": "topic", "format": n + 1, "shards": N, ...}             a store with several shards
    {"by": "topic", "format": n + 1, "shard": k, "shards": N, ...}          one of its shards

Features are those of `tms.core.values.store_features`. Keys ascend. Each kind of store has its own
keys in place of "...". A store with a feature or a key that this version does not know is refused,
so later versions may add both. DO NOT CHANGE: stored.
"""

from collections.abc import Collection, Mapping
from typing import Any

from tms.core.errors import StoreFormatUnknown
from tms.core.values.shards import SHARDS_MAX, OneShard, ShardBy, Sharding
from tms.core.values.store_features import FEATURES

_NUMBER = "format"
_FEATURES = "features"
_BY, _SHARD, _SHARDS = "by", "shard", "shards"


def features_of(recorded: Mapping[str, Any], keys: Collection[str], plain: int) -> frozenset[str]:
    """Return the features of a recorded format whose number is at most `plain` + 1.

    `keys` are those of that kind of store, `plain` is its number without features. Raises
    `StoreFormatUnknown`, which names the unknown parts and says what to do; KeyError, TypeError if
    this is not such a record.
    """
    has_features = recorded[_NUMBER] > plain
    unknown = recorded.keys() - {*keys, _NUMBER, *([_FEATURES] if has_features else [])}
    features = frozenset(recorded.get(_FEATURES, ()))
    unknown |= features - set(FEATURES)
    if unknown:
        raise StoreFormatUnknown(
            unknown=sorted(unknown),
            reason="a later version of TMS has used the store in a way that this one does not "
            "know: use that version",
        )
    return features


def record(features: Collection[str], plain: int, others: Mapping[str, Any]) -> dict[str, Any]:
    """Return the record of a store with its features, and its own values in `others`."""
    features_field = {_FEATURES: sorted(features)} if features else {}
    number = plain + bool(features or _SHARDS in others)
    return dict(sorted({_NUMBER: number, **features_field, **others}.items()))


def keys_of(of: Sharding | OneShard | None) -> dict[str, Any]:
    """Return the keys that record a sharded store or one of its shards; none for other stores."""
    if of is None:
        return {}
    if isinstance(of, Sharding):
        return {_BY: of.by.value, _SHARDS: of.shards}
    return {**keys_of(of.sharding), _SHARD: of.shard}


def shards_in(recorded: Mapping[str, Any]) -> Sharding | OneShard | None:
    """Return the sharding or shard in a record. Raises `StoreFormatUnknown` for another rule."""
    if not (fields := {key: recorded[key] for key in (_BY, _SHARD, _SHARDS) if key in recorded}):
        return None
    shards, shard, by = fields.get(_SHARDS), fields.get(_SHARD, 0), fields.get(_BY)
    if (
        type(shards) is type(shard) is int
        and 0 <= shard < shards
        and 1 < shards <= SHARDS_MAX
        and by in list(ShardBy)
    ):
        sharding = Sharding(shards, ShardBy(by))
        return OneShard(shard, sharding) if _SHARD in fields else sharding
    raise StoreFormatUnknown(reason="this version does not support such shards", **fields)
