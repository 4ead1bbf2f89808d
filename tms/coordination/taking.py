"""Taking the ephemeral value that stands for a lock or a leadership, and giving it back.

What is done about a value that is there already:

| the value | what it is | outcome |
| --- | --- | --- |
| not ephemeral | somebody's data | busy |
| created by this session, with the same content or under the token held | taken before; the answer was lost | it is kept |
| under the token held, by another session | taken before this session was lost | deleted, taken anew |
| created by this session, with other content | left by a former owner here | deleted, taken anew (`steal`) |
| anything else | somebody else's, whatever its content | busy |

What a former run of this process left has another session, which may be one that lives: nobody can
tell. So it is waited for until that session has ended. `steal` is for one value of the first attempt:
what is there after that was created since, by one who lives.

Tokens are the revisions in which the values were created, so one that was taken anew has a greater.
"""  # noqa: E501  a row of a table is one line

from tms.core.errors import BadVersion, LockBusy, PathNotFound
from tms.metadata.interface import NEW, MetadataStore, Stat, Value

_TRIES = 20
"""How often others may come between in one taking."""


async def take(
    store: MetadataStore, path: str, content: bytes, *, token: int | None, steal: bool
) -> Stat:
    """Create the value at `path`, or find that it is held already under `token`; return its stat.

    Raises `LockBusy`, and the errors of the store: then it may have been taken.
    """
    for _ in range(_TRIES):
        try:
            return await store.put(path, content, NEW, ephemeral=True)
        except BadVersion:
            found = await store.get(path)
        if found is None:
            continue
        if _is_kept(found, content, token):
            return found.stat
        if not _is_left_over(found, token, steal=steal):
            reason = "held by another" if found.stat.is_ephemeral else "not a lock"
            raise LockBusy(path=path, reason=reason)
        await _delete(store, found.stat)
        steal = steal and found.stat.created_revision == token
    raise LockBusy(path=path, reason="too many concurrent callers")


def _is_kept(found: Value, content: bytes, token: int | None) -> bool:
    held = found.value == content or found.stat.created_revision == token
    return found.stat.created_by_self and held


def _is_left_over(found: Value, token: int | None, *, steal: bool) -> bool:
    stat = found.stat
    if not stat.is_ephemeral:
        return False
    return stat.created_revision == token or (steal and stat.created_by_self)


async def _delete(store: MetadataStore, stat: Stat) -> None:
    try:
        await store.delete(stat.path, stat.version)
    except (BadVersion, PathNotFound):
        return  # it has changed since: the next look tells how


async def give_back(store: MetadataStore, path: str, token: int) -> None:
    """Delete the value at `path` if it is the one taken under `token`, whatever its version.

    Somebody else's is left alone: a version says nothing of whose it is, the token does. Raises the
    errors of the store.
    """
    for _ in range(_TRIES):
        found = await store.get(path)
        if found is None or found.stat.created_revision != token:
            return
        await _delete(store, found.stat)
