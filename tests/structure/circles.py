"""Circles of imports among modules, or among the parts that modules belong to."""

from collections.abc import Callable, Collection, Iterable, Sequence
from graphlib import CycleError, TopologicalSorter

from tests.structure.sources import Import, Source, imports


def circle(files: Iterable[Source], part_of: Callable[[str], str] = str) -> Sequence[str]:
    """Return the parts of a circle of imports, the first one again at the end; or an empty list.

    `part_of` returns the part that a module belongs to, by default the module itself.
    """
    known = {source.module: source for source in files}
    wanted: dict[str, set[str]] = {}
    for module, source in known.items():
        own = part_of(module)
        imported = {_file_of(each, known) for each in imports(source.tree)} - {None}
        wanted.setdefault(own, set()).update({part_of(str(each)) for each in imported} - {own})
    try:
        TopologicalSorter(wanted).prepare()
    except CycleError as error:
        found: Sequence[str] = error.args[1]
        return found
    return ()


def _file_of(imported: Import, known: Collection[str]) -> str | None:
    whole = f"{imported.module}.{imported.name}"
    return next((each for each in (whole, imported.module) if each in known), None)
