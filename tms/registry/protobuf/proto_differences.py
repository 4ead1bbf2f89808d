"""Whether one Protobuf schema can read data of another, by Confluent's rules.

Fields are matched by tag, messages by name. These may be added and removed: fields that are not
required, enums and their values, services, options, comments. Pure.
"""

from collections.abc import Iterator

from tms.registry.protobuf.proto_types import MAP, SCALARS, ProtoField, ProtoMessage, ProtoTypes
from tms.registry.questions.questions import Incompatibility

_GROUPS = (
    frozenset(("int32", "int64", "uint32", "uint64", "bool", "enum")),
    frozenset(("sint32", "sint64")),
    frozenset(("string", "bytes")),
    frozenset(("fixed32", "sfixed32")),
    frozenset(("fixed64", "sfixed64")),
    frozenset(("float",)),
    frozenset(("double",)),
)
"""Scalars of one group can read each other's data."""
_TEXTS = frozenset(("string", "bytes"))
_REQUIRED = "required"
_ENUM, _MESSAGE = "enum", "message"
_MOVED_MAX = 1
"""How many fields may move into one new oneof."""


def differences(old: ProtoTypes, new: ProtoTypes) -> list[Incompatibility]:
    """Return why `new` cannot read the data of `old`; empty if it can."""
    if old.package != new.package:
        message = f"the package was {old.package!r}, and is {new.package!r}"
        return [Incompatibility("PACKAGE_CHANGED", "#/", message)]
    comparing = _Comparing(old, new)
    return [reasons for name in old.own for reasons in comparing.messages(name, name)]


class _Comparing:
    """A comparison in progress."""

    def __init__(self, old: ProtoTypes, new: ProtoTypes) -> None:
        self._old = old
        self._new = new
        self._seen: set[tuple[str, str]] = set()

    def messages(self, was: str, now: str) -> Iterator[Incompatibility]:
        """Compare two messages, once."""
        if (was, now) in self._seen:
            return
        self._seen.add((was, now))
        path = f"#/{self._old.without_package(was).replace('.', '/')}"
        old, new = self._old.messages[was], self._new.messages.get(now)
        if new is None:
            yield Incompatibility("MESSAGE_REMOVED", path, f"there is no message {was} any more")
            return
        yield from self._fields(old.fields, new.fields, path)
        yield from self._oneofs(old, new, path)
        yield from self._moved(old, new, path)

    def _fields(
        self, old: dict[int, ProtoField], new: dict[int, ProtoField], path: str
    ) -> Iterator[Incompatibility]:
        for tag in sorted(old.keys() | new.keys()):
            was, now = old.get(tag), new.get(tag)
            at = f"{path}/{tag}"
            if was is not None and now is not None:
                yield from self._field(was, now, at)
            elif now is not None and now.label == _REQUIRED:
                yield Incompatibility("REQUIRED_FIELD_ADDED", at, f"{now.name} is required")
            elif was is not None and was.label == _REQUIRED:
                yield Incompatibility("REQUIRED_FIELD_REMOVED", at, f"{was.name} was required")

    def _oneofs(self, old: ProtoMessage, new: ProtoMessage, path: str) -> Iterator[Incompatibility]:
        in_oneofs = {tag for fields in old.oneofs.values() for tag in fields}
        for name, fields in new.oneofs.items():
            at = f"{path}/{name}"
            before = old.oneofs.get(name, {})
            for tag, was in before.items():
                if tag in fields:
                    yield from self._field(was, fields[tag], f"{at}/{tag}")
                else:
                    kind = "ONEOF_FIELD_REMOVED"
                    yield Incompatibility(
                        kind, f"{at}/{tag}", f"{was.name} is not in {name} any more"
                    )
            moved = [tag for tag in fields if tag in old.fields]
            joins_others = any(tag in in_oneofs for tag in fields)
            if len(moved) > _MOVED_MAX or (moved and joins_others):
                kind = "MULTIPLE_FIELDS_MOVED_TO_ONEOF"
                if len(moved) == _MOVED_MAX:
                    kind = "FIELD_MOVED_TO_EXISTING_ONEOF"
                names = ", ".join(old.fields[tag].name for tag in moved)
                yield Incompatibility(kind, at, f"{names} moved into {name}")

    def _moved(self, old: ProtoMessage, new: ProtoMessage, path: str) -> Iterator[Incompatibility]:
        """Compare the fields that entered, left or changed a oneof."""
        before, after = old.places, new.places
        for tag in sorted(before.keys() & after.keys()):
            (was_in, was), (now_in, now) = before[tag], after[tag]
            if was_in != now_in:
                yield from self._field_types(was, now, f"{path}/{tag}")

    def _field(self, was: ProtoField, now: ProtoField, path: str) -> Iterator[Incompatibility]:
        reasons = list(self._field_types(was, now, path))
        yield from reasons
        if MAP in (was.type, now.type):
            return
        if not reasons and _is_relabelled(was, now) and not self._may_be_relabelled(was.type):
            message = f"{now.name} was {was.label}, and is {now.label}"
            yield Incompatibility("FIELD_LABEL_CHANGED", path, message)
        elif _REQUIRED in (was.label, now.label) and was.label != now.label:
            kind = "REQUIRED_FIELD_ADDED" if now.label == _REQUIRED else "REQUIRED_FIELD_REMOVED"
            if not _is_relabelled(was, now):
                yield Incompatibility(
                    kind, path, f"{now.name} changed between required and not required"
                )

    def _field_types(
        self, was: ProtoField, now: ProtoField, path: str
    ) -> Iterator[Incompatibility]:
        if MAP not in (was.type, now.type):
            yield from self._types(was.type, now.type, path)
        elif was.type != now.type:
            message = f"{now.name} was or became a map"
            yield Incompatibility("FIELD_KIND_CHANGED", path, message)
        else:
            yield from self._types(was.key, now.key, f"{path}/key")
            yield from self._types(was.value, now.value, f"{path}/value")

    def _types(self, was: str, now: str, path: str) -> Iterator[Incompatibility]:
        old, new = _kind(self._old, was), _kind(self._new, now)
        if (old == _MESSAGE) != (new == _MESSAGE):
            message = f"{was} became {now}"
            yield Incompatibility("FIELD_KIND_CHANGED", path, message)
        elif old == _MESSAGE:
            if self._old.without_package(was) != self._new.without_package(now):
                kind = "FIELD_NAMED_TYPE_CHANGED"
                yield Incompatibility(kind, path, f"{was} became {now}")
            else:
                yield from self.messages(was, now)
        elif not any(old in group and new in group for group in _GROUPS):
            kind = "FIELD_SCALAR_KIND_CHANGED"
            yield Incompatibility(kind, path, f"{was} became {now}")

    def _may_be_relabelled(self, name: str) -> bool:
        return name in _TEXTS or _kind(self._old, name) == _MESSAGE


def _is_relabelled(was: ProtoField, now: ProtoField) -> bool:
    """Whether both have labels, and they differ."""
    return was.label is not None and now.label is not None and was.label != now.label


def _kind(types: ProtoTypes, name: str) -> str:
    """Return the name of a scalar, or the kind of another type."""
    if name in SCALARS:
        return name
    return _ENUM if name in types.enums else _MESSAGE
