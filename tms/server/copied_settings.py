"""Copies the settings of namespaces from one data folder to another, after `tms copy`.

Rules and tokens are left: they say who may use a server, which the operator of the new one decides.
"""

from typing import TYPE_CHECKING, NamedTuple

from tms.core.text.store_url import folder_of
from tms.metadata.interface import MetadataStore
from tms.namespaces.store import ROOT
from tms.security.grants import RULES, TOKENS
from tms.server.stores import open_metadata

if TYPE_CHECKING:
    from tables.store_tables import StoreTables


class CopiedSettings(NamedTuple):
    """The settings in the source's folder, and what became of them."""

    namespaces: int = 0
    """The namespaces whose settings are now the same in the target."""
    other_namespaces: tuple[str, ...] = ()
    """The namespaces whose settings are not: the target has other ones, or no place for them."""
    rules: int = 0
    """The rules that were left."""
    tokens: int = 0
    """The tokens that were left."""


async def copy_settings(
    source: str, source_tables: "StoreTables", target: str, target_tables: "StoreTables"
) -> CopiedSettings:
    """Copy what the target lacks. Raises `StoreUnavailable`, `StoreCorrupt`."""
    if folder_of(source) is None:
        return CopiedSettings()
    own = await open_metadata(source, tables=source_tables)
    try:
        names = await own.get_children(ROOT)
        others = names
        if folder_of(target) is not None:
            others = await _copy(own, names, target, target_tables)
        rules, tokens = [len(await own.get_children(path)) for path in (RULES, TOKENS)]
        return CopiedSettings(len(names) - len(others), tuple(others), rules, tokens)
    finally:
        await own.close()


async def _copy(
    own: MetadataStore, names: list[str], target: str, tables: "StoreTables"
) -> list[str]:
    """Copy the settings; return the namespaces that have other settings in the target."""
    others: list[str] = []
    their = await open_metadata(target, tables=tables)
    try:
        for name in names:
            path = f"{ROOT}/{name}"
            found, there = await own.get(path), await their.get(path)
            if found is not None and there is None:
                await their.put(path, found.value)
            elif found is not None and there is not None and found.value != there.value:
                others.append(name)
    finally:
        await their.close()
    return others
