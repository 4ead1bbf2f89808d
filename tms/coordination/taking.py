"""Takes the ephemeral value that represents a lock or a leadership, and gives it back.

An existing value is handled as follows:

| the value | what it is | outcome |
| --- | --- | --- |
| not ephemeral | somebody's data | busy |
| created by this session, with the same content or under the token held | taken before; the answer was lost | kept |
| under the token held, by another session | taken before this session was lost | deleted, taken again |
| created by this session, with other content | left by a former owner here | deleted, taken again (`steal`) |
| anything else | somebody else's, whatever its content | busy |

A value left by a former run of this process has another session, which may still be live: nobody
can know. So it is busy until that session has ended. `steal` applies to the value met by the first
attempt: a later value was created since then, by a live owner.

Tokens are the revisions in which the values were created, so a value that is taken again has a
greater one.
"""  # noqa: E501  a row of a table is one line

from tms.core.errors import BadVersion, LockBusy, PathNotFound
from tms.metadata.interface import NEW, MetadataStore, Stat, Value

_TRIES = 20
"""How often other writers may interfere in one attempt."""


async def take(
    store: MetadataStore, path: str, content: bytes, *, token: int | None, steal: bool
) -> Stat:
    """Create the value at `path`, or find it held under `token`; return its stat.

    Raises `LockBusy`, and the errors of the store: then it may have been taken.
    """
    for _ in range(_TRIES):
        try:
            return await store.put(path, content, NEW, ephemeral=True)
        except BadVersion:
            value = await store.get(path)
        if value is None:
            continue
        if _is_kept(value, content, token):
            return value.stat
        if not _is_left_over(value, token, steal=steal):
            reason = "held by another" if value.stat.is_ephemeral else "not a lock"
            raise LockBusy(path=path, reason=reason)
        await _delete(store, value.stat)
        steal = steal and value.stat.created_revision == token
    raise LockBusy(path=path, reason="too many concurrent callers")


def _is_kept(value: Value, content: bytes, token: int | None) -> bool:
    held = value.value == content or value.stat.created_revision == token
    return value.stat.created_by_self and held


def _is_left_over(value: Value, token: int | None, *, steal: bool) -> bool:
    stat = value.stat
    if not stat.is_ephemeral:
        return False
    return stat.created_revision == token or (steal and stat.created_by_self)


async def _delete(store: MetadataStore, stat: Stat) -> None:
    try:
        await store.delete(stat.path, stat.version)
    except (BadVersion, PathNotFound):
        return  # it has changed since: the next read shows how


async def give_back(store: MetadataStore, path: str, token: int) -> None:
    """Delete the value at `path` if it is the one taken under `token`, whatever its version.

    Another owner's value is left alone: the token, not a version, shows the owner. Raises the
    errors of the store.
    """
    for _ in range(_TRIES):
        value = await store.get(path)
        if value is None or value.stat.created_revision != token:
            return
        await _delete(store, value.stat)
