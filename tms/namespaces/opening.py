"""Opens the namespaces of a server: where its settings say, or else in the server's store."""

import os
from collections.abc import Awaitable, Callable

from tms.core.limits import Limits
from tms.core.text.store_url import folder_of, kind_of
from tms.metadata.interface import MetadataStore
from tms.namespaces.store import NamespaceStore, UndeclaredNamespaces

OpenMetadata = Callable[[str, bool], Awaitable[MetadataStore]]
"""Opens a URL; True if it is the folder that the server's store has open."""

DeclaredNamespaces = NamespaceStore | UndeclaredNamespaces


async def open_namespaces(
    metadata: str, store: str, limits: Limits, open_metadata: OpenMetadata
) -> DeclaredNamespaces:
    """Return the namespaces of a server on `store`; close them when done.

    They are at the URL `metadata`. If that is empty, they are in the folder of a store on disk, in
    memory for a store in memory, and nowhere for other stores. Raises as `open_metadata` does.
    """
    url = metadata or _beside(store)
    if url is None:
        return UndeclaredNamespaces(limits)
    namespaces = NamespaceStore(await open_metadata(url, _is_same_folder(url, store)), limits)
    try:
        await namespaces.open()
    except BaseException:
        await namespaces.close()
        raise
    return namespaces


def _beside(store: str) -> str | None:
    kind = kind_of(store)
    if kind is None or kind.is_shared:
        return None
    return store if kind.is_folder else "memory://"


def _is_same_folder(one: str, other: str) -> bool:
    folders = [folder_of(url) for url in (one, other)]
    return None not in folders and len({os.path.realpath(str(folder)) for folder in folders}) == 1
