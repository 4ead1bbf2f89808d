"""Finds values that a combination (allOf, anyOf, oneOf) no longer accepts. Pure.

Parts are matched in any order: as many pairs as possible in which the new part accepts all that the
old one accepts.
"""

from collections.abc import Iterator, Sequence

from tms.registry.json.json_changes import Differ, difference
from tms.registry.json.json_nodes import ALL_OF, ANY_OF, COMBINED, ONE_OF, SchemaNode, SchemaPlace
from tms.registry.json.json_text import json_text
from tms.registry.questions.questions import Incompatibility

Part = SchemaNode | SchemaPlace


def is_part_taken(differ: Differ, old: SchemaNode, new: SchemaNode) -> bool:
    """Whether schemas of different classes are compatible because one is a combination."""
    if new.kind == COMBINED:
        if len(new.parts) == 1 and differ.fits(old, new.parts[0]):
            return True
        if new.criterion in (ANY_OF, ONE_OF) and any(differ.fits(old, p) for p in new.parts):
            return True
    if old.kind == COMBINED:
        if len(old.parts) == 1 and differ.fits(old.parts[0], new):
            return True
        if old.criterion == ALL_OF and any(differ.fits(part, new) for part in old.parts):
            return True
    return False


def differences(
    differ: Differ, old: SchemaNode, new: SchemaNode, path: str
) -> Iterator[Incompatibility]:
    """Yield why one combination does not accept all that another accepts."""
    before, after = _distinct(old.parts), _distinct(new.parts)
    if not _may_become(old, new, len(before), len(after)):
        message = f"{old.criterion} became {new.criterion}"
        yield difference("COMBINED_TYPE_CHANGED", path, message)
        return
    if len(after) > len(before) and new.criterion == ALL_OF:
        yield difference("PRODUCT_TYPE_EXTENDED", path, "now more is required of values")
        return
    if len(after) < len(before) and new.criterion != ALL_OF:
        yield difference("SUM_TYPE_NARROWED", path, "now fewer kinds of values are allowed")
        return
    if _matched(differ, before, after) < min(len(before), len(after)):
        kind = "COMBINED_TYPE_SUBSCHEMAS_CHANGED"
        yield difference(kind, path, f"the parts of {new.criterion} do not match each other")


def _may_become(old: SchemaNode, new: SchemaNode, before: int, after: int) -> bool:
    return (
        new.criterion in (old.criterion, ANY_OF)
        or (before == after == 1)
        or (before == 1 and new.criterion == ONE_OF)
        or (after == 1 and old.criterion == ALL_OF)
    )


def _distinct(parts: Sequence[Part]) -> list[Part]:
    """Return the parts without duplicates; the first one wins."""
    distinct: dict[str, Part] = {}
    for part in parts:
        if isinstance(part, SchemaPlace):
            key = json_text(part.schema, normalized=True)
        else:
            key = f"{part.kind} {part.criterion} {json_text(part.keywords, normalized=True)}"
        distinct.setdefault(key, part)
    return list(distinct.values())


def _matched(differ: Differ, before: Sequence[Part], after: Sequence[Part]) -> int:
    """Return the largest number of pairs: a maximum bipartite matching (Kuhn's)."""
    fits = [[number for number, new in enumerate(after) if differ.fits(old, new)] for old in before]
    partner: dict[int, int] = {}

    def place(old: int, tried: set[int]) -> bool:
        for new in fits[old]:
            if new in tried:
                continue
            tried.add(new)
            if new not in partner or place(partner[new], tried):
                partner[new] = old
                return True
        return False

    return sum(place(old, set()) for old in range(len(before)))
