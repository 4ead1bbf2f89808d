"""The Subscription table: positions of consumers and groups, one row each, by topic and generation.

    row key := prefix (tables.keys), name UTF-8
    value   := version int64, id of the last consumed message (20 bytes, or none)
             | version int64, 0x02, settings                           of a group

Big-endian. Settings are a JSON object: the fields of `GroupSettings`, `after` and `created` of
`SharedSubscription`; keys ascend, without spaces. A missing field has its default. An unknown one
is listed in `unknown`, so that only this group is refused; so is a filter that cannot be parsed. A
subscription belongs to a generation of its topic: a topic that is created again has none. DO NOT
CHANGE: on disk.
"""

import json
import struct
from collections.abc import Sequence
from dataclasses import asdict, fields
from typing import Any

from tables.keys import after_prefix, prefix_of
from tables.store import SUBSCRIPTION, Store
from tms.core.errors import StoreCorrupt
from tms.core.values.batch import Batch
from tms.core.values.filters import is_filter
from tms.core.values.group_settings import DEFAULTS, GroupSettings, Order
from tms.core.values.message import ID_BYTES
from tms.core.values.subscriptions import SharedSubscription, SubscriptionPosition
from tms.core.values.table_rows import StoredPosition
from tms.core.values.topic import TopicId

_VERSION = struct.Struct(">q")
_SHARED = b"\x02"
_LATER: Sequence[Sequence[str]] = (
    ("attempts_max", "dead_letter", "dead_letters_max", "dead_letters_per_s"),
    ("rate",),
    ("filter",),
)
"""Settings that came later, those together that came together. Earlier versions refuse a group with
settings that they do not know, so these are stored only if one of them differs from its default."""
_KINDS = {field.name: type(field.default) for field in fields(GroupSettings)}
"""The types of the settings, by name."""


class StoreSubscriptionTable:
    """Named positions of consumers in the topics."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def check_unanswered(self, topic_prefix: bytes, name: str) -> None:
        """Raise `StoreUnavailable` if an earlier write of a subscription may still take effect."""
        self._store.check_unanswered(SUBSCRIPTION, (topic_prefix + name.encode(),))

    def put(self, batch: Batch, topic_prefix: bytes, subscription: SubscriptionPosition) -> None:
        """Add to `batch` the row of a subscription."""
        batch.put(SUBSCRIPTION, topic_prefix + subscription.name.encode(), encoded(subscription))

    def delete(self, batch: Batch, topic_prefix: bytes, subscription: SubscriptionPosition) -> None:
        """Add to `batch` the deletion of a subscription in its present version."""
        batch.delete(SUBSCRIPTION, topic_prefix + subscription.name.encode())

    def read(self, topic_id: TopicId, topic_prefix: bytes) -> Sequence[SubscriptionPosition]:
        """Return the subscriptions of a topic's generation in the order of their names."""
        with self._store.scan(SUBSCRIPTION, topic_prefix, after_prefix(topic_prefix)) as rows:
            return [decoded(topic_id, key[len(topic_prefix) :], value) for key, value in rows]

    def scan(self, *, limit: int) -> Sequence[StoredPosition]:
        """Return the first `limit` subscriptions of all topics, by topic, generation and name."""
        with self._store.scan(SUBSCRIPTION, b"", b"\xff", limit=limit) as rows:
            return [_stored(key, value) for key, value in rows]


def _stored(key: bytes, value: bytes) -> StoredPosition:
    topic_id, generation, prefix = prefix_of(key)
    return StoredPosition(prefix, generation, decoded(topic_id, key[len(prefix) :], value))


def encoded(subscription: SubscriptionPosition) -> bytes:
    """Return the value of a subscription's row."""
    version = _VERSION.pack(subscription.version)
    if isinstance(subscription, SharedSubscription):
        return version + _SHARED + _settings(subscription)
    return version + (subscription.after or b"")


def decoded(topic_id: TopicId, name: bytes, value: bytes) -> SubscriptionPosition:
    """Return the subscription of a row's name and value. Raises `StoreCorrupt`."""
    rest = value[_VERSION.size :]
    is_shared = rest.startswith(_SHARED) and len(rest) != ID_BYTES
    if len(value) < _VERSION.size or (len(rest) not in (0, ID_BYTES) and not is_shared):
        raise StoreCorrupt(table=SUBSCRIPTION, topic=str(topic_id), name=name.hex())
    [version] = _VERSION.unpack_from(value)
    if not is_shared:
        return SubscriptionPosition(topic_id, name.decode(), rest or None, version)
    try:
        return _group(topic_id, name.decode(), version, json.loads(rest[1:]))
    except (ValueError, TypeError, KeyError) as error:
        raise StoreCorrupt(
            table=SUBSCRIPTION, topic=str(topic_id), name=name.hex(), reason=str(error)
        ) from None


def _settings(group: SharedSubscription) -> bytes:
    assert not group.unknown, "settings that are not known would be lost"
    settings = asdict(group.settings)
    for names in _LATER:
        if all(settings[name] == getattr(DEFAULTS, name) for name in names):
            settings = {name: value for name, value in settings.items() if name not in names}
    row = {
        **settings,
        "after": None if group.after is None else group.after.hex(),
        "created": group.created,
    }
    return json.dumps(row, sort_keys=True, separators=(",", ":")).encode()


def _group(topic_id: TopicId, name: str, version: int, row: dict[str, Any]) -> SharedSubscription:
    """Return the group of a decoded row. Raises ValueError, TypeError, KeyError."""
    after, created = row.pop("after"), int(row.pop("created"))
    settings_by_name = {name: row.pop(name) for name in _KINDS if name in row}
    if "order" in settings_by_name:
        settings_by_name["order"] = Order(settings_by_name["order"])
    if wrong := [key for key, value in settings_by_name.items() if type(value) is not _KINDS[key]]:
        raise TypeError(f"settings of another type: {', '.join(wrong)}")
    if not is_filter(settings_by_name.get("filter") or "key exists"):  # of a later version
        row["filter"] = settings_by_name.pop("filter")
    return SharedSubscription(
        topic_id=topic_id,
        name=name,
        after=None if after is None else bytes.fromhex(after),
        version=version,
        created=created,
        settings=GroupSettings(**settings_by_name),
        unknown=tuple(sorted(row)),
    )
