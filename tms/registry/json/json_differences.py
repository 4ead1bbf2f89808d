"""Whether one JSON Schema accepts all that another accepts, by the rules of Confluent's registry.

The two are compared class by class (`json_nodes`). Changes that reject more than before are
returned with their names in that registry. Objects are in `json_objects`, arrays in `json_arrays`,
combinations in `json_combinations`. Pure.
"""

from collections.abc import Callable, Iterator
from decimal import Decimal

from tms.registry.json import json_arrays, json_combinations, json_objects
from tms.registry.json.json_changes import (
    Differ,
    bound,
    difference,
    number_of,
)
from tms.registry.json.json_nodes import (
    ANY,
    ARRAY,
    COMBINED,
    CONST,
    ELSE,
    ENUM,
    FALSE,
    IF,
    INTEGER,
    NOT,
    NUMBER,
    OBJECT,
    STRING,
    THEN,
    SchemaNode,
    SchemaPlace,
    node_of,
)
from tms.registry.json.json_text import json_text
from tms.registry.questions.questions import Incompatibility

_Told = tuple[int, str, str, str]


def _told_apart(part: SchemaNode | SchemaPlace) -> _Told:
    """Return the identity of a part of a schema, while the schema is alive."""
    if isinstance(part, SchemaPlace):
        return id(part.schema), "", "", ""
    return id(part.place.schema), part.kind, part.criterion, str(part.keywords.get("type"))


class Comparing:
    """A comparison in progress."""

    def __init__(self) -> None:
        self._under_way: set[tuple[int, int]] = set()
        self._assumed: set[tuple[int, int]] = set()
        self._unfit: set[tuple[int, int]] = set()
        self._wrong: set[tuple[int, int]] = set()
        self._known: dict[tuple[_Told, _Told], bool] = {}

    def all_differences(self, old: SchemaPlace, new: SchemaPlace) -> list[Incompatibility]:
        """Return why `new` does not accept all that `old` accepts; empty if it does."""
        while True:
            found = list(self.differences(old, new, ""))
            wrong = self._assumed & self._unfit
            if found or not wrong:
                return found
            # Pairs were assumed to fit and do not, so only the negative answers are certain.
            self._wrong |= wrong
            self._assumed.clear()
            self._known = {pair: False for pair, does_fit in self._known.items() if not does_fit}

    def differences(
        self, old: SchemaNode | SchemaPlace, new: SchemaNode | SchemaPlace, path: str
    ) -> Iterator[Incompatibility]:
        """Yield why `new` does not accept all that `old` accepts; nothing if it does."""
        before = node_of(old) if isinstance(old, SchemaPlace) else old
        after = node_of(new) if isinstance(new, SchemaPlace) else new
        if not isinstance(old, SchemaPlace) or not isinstance(new, SchemaPlace):
            yield from self._compared(before, after, path)
            return
        pair = id(before.place.schema), id(after.place.schema)
        if pair in self._wrong and pair in self._under_way:
            yield difference("TYPE_CHANGED", path, "within itself, it accepts less than before")
            return
        if pair in self._under_way:
            self._assumed.add(pair)
            return
        self._under_way.add(pair)
        try:
            for each in self._compared(before, after, path):
                self._unfit.add(pair)
                yield each
        finally:
            self._under_way.discard(pair)

    def fits(self, old: SchemaNode | SchemaPlace, new: SchemaNode | SchemaPlace) -> bool:
        """Whether `new` accepts all that `old` accepts."""
        pair = _told_apart(old), _told_apart(new)
        answer = self._known.get(pair)
        if answer is None:
            answer = self._known[pair] = next(self.differences(old, new, ""), None) is None
        return answer

    def _compared(self, old: SchemaNode, new: SchemaNode, path: str) -> Iterator[Incompatibility]:
        if new.kind == ANY or old.kind == FALSE or _are_connects_bytes(old, new):
            return
        if old.kind != new.kind:
            if not json_combinations.is_part_taken(self, old, new):
                yield difference("TYPE_CHANGED", path, f"{_named(old)} became {_named(new)}")
            return
        yield from _RULES.get(old.kind, _nothing)(self, old, new, path)


Rule = Callable[[Differ, SchemaNode, SchemaNode, str], Iterator[Incompatibility]]


def _named(node: SchemaNode) -> str:
    return node.criterion or (INTEGER if node.keywords.get("type") == INTEGER else node.kind)


def _are_connects_bytes(old: SchemaNode, new: SchemaNode) -> bool:
    """Whether both are bytes in the form of Kafka Connect."""
    return old.keywords.get("connect.type") == new.keywords.get("connect.type") == "bytes"


def _nothing(
    _: Differ, _old: SchemaNode, _new: SchemaNode, _path: str
) -> Iterator[Incompatibility]:
    yield from ()


def _strings(_: Differ, old: SchemaNode, new: SchemaNode, path: str) -> Iterator[Incompatibility]:
    before, after = old.keywords, new.keywords
    yield from bound(before, after, "maxLength", path, "MAX_LENGTH")
    yield from bound(before, after, "minLength", path, "MIN_LENGTH")
    pattern, changed = before.get("pattern"), after.get("pattern")
    if changed is not None and pattern is None:
        yield difference("PATTERN_ADDED", path, f"the pattern is {changed} now")
    elif changed is not None and pattern != changed:
        yield difference("PATTERN_CHANGED", path, f"the pattern was {pattern}, and is {changed}")


def _numbers(_: Differ, old: SchemaNode, new: SchemaNode, path: str) -> Iterator[Incompatibility]:
    before, after = old.keywords, new.keywords
    yield from bound(before, after, "maximum", path, "MAXIMUM")
    yield from bound(before, after, "exclusiveMaximum", path, "EXCLUSIVE_MAXIMUM")
    yield from bound(before, after, "minimum", path, "MINIMUM")
    yield from bound(before, after, "exclusiveMinimum", path, "EXCLUSIVE_MINIMUM")
    step, changed = number_of(before, "multipleOf"), number_of(after, "multipleOf")
    if changed is not None and step is None:
        yield difference("MULTIPLE_OF_ADDED", path, f"multipleOf is {changed} now")
    elif changed and step is not None and not _is_multiple(Decimal(step), Decimal(changed)):
        yield difference("MULTIPLE_OF_CHANGED", path, f"multipleOf was {step}, and is {changed}")
    if after.get("type") == INTEGER and before.get("type") != INTEGER:
        yield difference("TYPE_NARROWED", path, "it is a whole number now")


def _is_multiple(number: Decimal, step: Decimal) -> bool:
    """Whether a number is a multiple of another, whatever their exponents."""
    (_, digits, exponent), (_, factors, other) = number.as_tuple(), step.as_tuple()
    whole, factor = (int(Decimal((0, each, 0))) for each in (digits, factors))
    shift = int(exponent) - int(other)
    if shift >= 0:
        return whole * pow(10, shift, factor) % factor == 0
    return whole == 0 or (-shift < len(digits) and whole % (factor * 10**-shift) == 0)


def _enums(_: Differ, old: SchemaNode, new: SchemaNode, path: str) -> Iterator[Incompatibility]:
    before, after = _values(old), _values(new)
    if not before <= after:
        kind = "ENUM_ARRAY_NARROWED" if after < before else "ENUM_ARRAY_CHANGED"
        gone = ", ".join(sorted(before - after))
        yield difference(kind, path, f"these values are not allowed any more: {gone}")


def _values(node: SchemaNode) -> frozenset[str]:
    enum_values = node.keywords[ENUM]
    values = enum_values if isinstance(enum_values, list) else []
    return frozenset(json_text(value, normalized=True) for value in values)


def _constants(_: Differ, old: SchemaNode, new: SchemaNode, path: str) -> Iterator[Incompatibility]:
    before, after = (json_text(each.keywords[CONST], normalized=True) for each in (old, new))
    if before != after:
        yield difference("CONST_CHANGED", path, f"it was {before}, and is {after}")


def _negations(
    differ: Differ, old: SchemaNode, new: SchemaNode, path: str
) -> Iterator[Incompatibility]:
    before, after = (each.place.below(each.keywords[NOT]) for each in (old, new))
    if not differ.fits(after, before):
        yield difference("NOT_TYPE_EXTENDED", path, "now more is excluded")


def _conditions(
    differ: Differ, old: SchemaNode, new: SchemaNode, path: str
) -> Iterator[Incompatibility]:
    was, now = (each.place.below(each.keywords[IF]) for each in (old, new))
    if not (differ.fits(was, now) and differ.fits(now, was)):
        yield difference("CONDITION_CHANGED", f"{path}/{IF}", "now more may be required of values")
        return
    for name in (THEN, ELSE):
        before, after = (each.place.below(each.keywords.get(name, True)) for each in (old, new))
        yield from differ.differences(before, after, f"{path}/{name}")


_RULES: dict[str, Rule] = {
    IF: _conditions,
    STRING: _strings,
    NUMBER: _numbers,
    ENUM: _enums,
    CONST: _constants,
    NOT: _negations,
    OBJECT: json_objects.differences,
    ARRAY: json_arrays.differences,
    COMBINED: json_combinations.differences,
}
