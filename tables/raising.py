"""Topics of a store whose format is older than some of the property names that TMS now uses.

Until LevelDB's format 3 and HBase's 2 a user's property could have any name. A name that has a
meaning now, or is the server's, would take effect: it would hide or delete messages. So until such
a store is raised, its topics are read with `user.NAME` in place of NAME, and no topic gets a
property that only the server's names can express. Raising writes the new names into the rows, and
then records the format. A row is renamed whole or not at all, and renaming it again changes
nothing, so raising can be repeated wherever it was interrupted. In a raised store nothing is
renamed.

Relies on no older version writing in the meantime.
"""

import json
import logging
from collections.abc import Callable, Iterator

from tables.sealing.seal import topic_row
from tables.store import METADATA, Row, Store
from tms.core.errors import StoreUnavailable
from tms.core.values.topic_properties import is_of_the_server, with_user_names

_PAGE = 500
_TOPICS_NAMED = 20

_log = logging.getLogger(__name__)


def raised_row(row: bytes) -> bytes:
    """Return the row of a topic in the present format, with its seal.

    A damaged row is returned unchanged: its reader reports it.
    """
    try:
        properties = json.loads(topic_row(row))
        if not any(map(is_of_the_server, properties)):
            return row
        renamed = dict(sorted(with_user_names(properties).items()))
    except (ValueError, AttributeError, TypeError):
        return row
    text = json.dumps(renamed, separators=(",", ":"), ensure_ascii=False)
    return text.encode() + row[len(topic_row(row)) :]


def shown_rows(store: Store) -> Callable[[bytes], bytes]:
    """Return a function that converts rows of topics read after this to the present format."""
    return _as_it_is if store.is_raised else raised_row


def check_writable_row(store: Store, row: bytes) -> None:
    """Raise `StoreUnavailable` if a store that is not raised cannot express the row."""
    if not store.is_raised and raised_row(row) != row:
        names = sorted(filter(is_of_the_server, json.loads(row)))
        raise StoreUnavailable(
            properties=names,
            reason="the store still has an older format, in which these properties have no "
            "meaning: replace the older servers of the cluster first",
        )


def raise_rows(store: Store) -> None:
    """Rename the properties in the rows of all topics, and log it. Raises as `Store.write` does."""
    topics = []
    for key, row in _topic_rows(store):
        if raised_row(row) != row:
            _raise_row(store, key, row)
            topics.append(key.decode(errors="replace").rstrip(":"))
    if topics:
        more = len(topics) - _TOPICS_NAMED
        _log.warning(
            "some property names now have a meaning, so they were renamed from NAME to user.NAME "
            "in %s%s: to use that meaning, set them again",
            ", ".join(topics[:_TOPICS_NAMED]),
            f" and {more} more topics" if more > 0 else "",
        )


def _raise_row(store: Store, key: bytes, row: bytes | None) -> None:
    while row is not None and (new := raised_row(row)) != row:
        if store.compare_and_put(METADATA, key, row, new):
            return
        row = store.get(METADATA, key)  # somebody changed the topic in the meantime


def _as_it_is(row: bytes) -> bytes:
    return row


def _topic_rows(store: Store) -> Iterator[Row]:
    start = b""
    while True:
        with store.scan(METADATA, start, b"\xff", limit=_PAGE) as scanned:
            rows = list(scanned)
        yield from rows
        if len(rows) < _PAGE:
            return
        start = rows[-1][0] + b"\x00"
