"""The answers that a registry must give, and its state afterwards: a plain model of the rules.

Schemas are shapes. Two records are always compatible; two other shapes only if they are equal.
"""

import copy
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from tms.core.services.schemas import SchemaReference


class Shape(NamedTuple):
    """A schema."""

    kind: str
    """`record`, `fixed`, `user`: a record with a field of a fixed type that it refers to; or
    `written out`: one with that type in it."""
    what: int
    target: tuple[str, int] | None = None
    """The version that a user refers to."""

    @property
    def text(self) -> str:
        if self.kind == "fixed":
            return f'{{"type":"fixed","name":"F","size":{self.what}}}'
        if self.kind == "record":
            default = f'{{"name":"f{self.what}","type":"int","default":0}}'
            return f'{{"type":"record","name":"R","fields":[{default}]}}'
        fixed = '"F"' if self.kind == "user" else Shape("fixed", self.what).text
        return f'{{"type":"record","name":"U","fields":[{{"name":"f","type":{fixed}}}]}}'

    @property
    def fits_only(self) -> str:
        """The kind of shapes that it can be compatible with."""
        return "user" if self.kind == "written out" else self.kind

    @property
    def references(self) -> tuple[SchemaReference, ...]:
        return () if self.target is None else (SchemaReference("F", *self.target),)


@dataclass
class Kept:
    """A version."""

    id: int
    shape: Shape
    is_deleted: bool = False


class Wrong(Exception):
    """Raised for a refused request, with the code of the refusal."""


def refuse(code: int) -> Any:
    raise Wrong(code)


@dataclass
class Expected:
    """The whole of a registry's state."""

    subjects: dict[str, dict[int, Kept]] = field(default_factory=dict)
    used: dict[int, Shape] = field(default_factory=dict)
    """The schema of each id."""
    next_id: int = 1
    levels: dict[str, str] = field(default_factory=dict)
    modes: dict[str, str] = field(default_factory=dict)
    given: dict[int, Shape] = field(default_factory=dict)
    """The schema to which the registry itself ever assigned each id."""
    had: dict[int, set[str]] = field(default_factory=dict)
    """The texts that each id ever had. An import may reuse an id that is free."""

    def tried(self, act: Callable[["Expected"], Any]) -> tuple["Expected", Any]:
        """Return the state after an act, and the answer to it."""
        after = copy.deepcopy(self)
        try:
            return after, act(after)
        except Wrong as wrong:
            return self, wrong.args[0]

    def live(self, subject: str) -> dict[int, Kept]:
        kept = self.subjects.get(subject, {})
        return {number: kept[number] for number in sorted(kept) if not kept[number].is_deleted}

    def mode(self, subject: str) -> str:
        everywhere = self.modes.get("", "READWRITE")
        if everywhere == "READONLY_OVERRIDE":
            return everywhere
        return self.modes.get(subject, everywhere)

    def level(self, subject: str) -> str:
        return self.levels.get(subject, self.levels.get("", "BACKWARD"))

    def is_read_only(self, subject: str) -> bool:
        return self.mode(subject).startswith("READONLY")

    def fits(self, new: Shape, old: Shape) -> bool:
        if new.kind == "record" == old.kind:
            return True
        return new.fits_only == old.fits_only and self.resolved(new) == self.resolved(old)

    def resolved(self, shape: Shape) -> int:
        if shape.target is None:
            return shape.what
        subject, number = shape.target
        return self.subjects[subject][number].shape.what

    def register(
        self, subject: str, shape: Shape, wanted: int | None = None, version: int | None = None
    ) -> tuple[int, int]:
        if wanted is not None and not 0 < wanted < 2**31:
            refuse(42201)
        if shape.target is not None and shape.target[1] not in self.live(shape.target[0]):
            refuse(42201)
        live = self.live(subject)
        meant = {number: each for number, each in live.items() if wanted in (None, each.id)}
        mode = self.mode(subject)
        if version is None or mode == "IMPORT":  # else a version that is named means a new one
            for number, kept in self.same(meant, shape):
                return kept.id, number
        if mode.startswith("READONLY") or (wanted is None) == (mode == "IMPORT"):
            refuse(42205)
        if mode != "IMPORT":
            self.check(shape, list(live.values()), self.level(subject))
        schema_id = self.id_for(shape, wanted)
        number = max(self.subjects.get(subject, {}), default=0) + 1
        if version is not None:
            number = self.imported(subject, version, schema_id)
        self.subjects.setdefault(subject, {})[number] = Kept(schema_id, shape)
        self.used.setdefault(schema_id, shape)
        self.had.setdefault(schema_id, set()).add(shape.text)
        if schema_id <= 2**30:
            self.next_id = max(self.next_id, schema_id + 1)
        self.forget_hidden(subject, schema_id)
        return schema_id, number

    def same(self, meant: dict[int, Kept], shape: Shape) -> list[tuple[int, Kept]]:
        """Return versions of a shape, latest first; if none, the users that it writes out."""
        same = [(number, kept) for number, kept in meant.items() if kept.shape == shape]
        if not same and shape.kind == "written out":
            users = [each for each in meant.items() if each[1].shape.kind == "user"]
            same = [each for each in users if self.resolved(each[1].shape) == shape.what]
        return same[::-1]

    def forget_hidden(self, subject: str, schema_id: int) -> None:
        for number, kept in list(self.subjects[subject].items()):
            is_needed = self.is_referred_to(subject, number, deleted=True)
            if kept.is_deleted and kept.id == schema_id and not is_needed:
                self.remove(subject, number)

    def imported(self, subject: str, version: int, schema_id: int) -> int:
        replaced = self.subjects.get(subject, {}).get(version)
        if replaced is not None:
            if not replaced.is_deleted:
                refuse(42205)
            if replaced.id != schema_id and self.is_referred_to(subject, version, deleted=True):
                refuse(42206)
            self.remove(subject, version)
        return version

    def id_for(self, shape: Shape, wanted: int | None) -> int:
        if wanted is not None:
            if self.used.get(wanted, shape) != shape:
                refuse(42205)
            return wanted
        ids = [each for each, used in self.used.items() if used == shape]
        if ids:
            return min(ids)
        assert self.next_id not in self.given, "an id was given twice"
        self.given[self.next_id] = shape
        return self.next_id

    def check(self, shape: Shape, earlier: list[Kept], level: str) -> None:
        if level == "NONE":
            return
        checked = earlier if level.endswith("TRANSITIVE") else earlier[-1:]
        if not all(self.fits(shape, kept.shape) for kept in checked):
            refuse(409)

    def remove(self, subject: str, number: int) -> None:
        kept = self.subjects[subject].pop(number)
        if not self.subjects[subject]:
            del self.subjects[subject]
        if all(each.id != kept.id for there in self.subjects.values() for each in there.values()):
            del self.used[kept.id]

    def is_referred_to(
        self, subject: str, number: int, *, deleted: bool = False, besides: str | None = None
    ) -> bool:
        return any(
            kept.shape.target == (subject, number) and (deleted or not kept.is_deleted)
            for name, there in self.subjects.items()
            if name != besides
            for kept in there.values()
        )

    def delete_version(self, subject: str, number: int, *, permanent: bool) -> int:
        versions = self.subjects.get(subject) or refuse(40401)
        kept = versions.get(number) or refuse(40402)
        if permanent and not kept.is_deleted:
            refuse(40407)
        if not permanent and kept.is_deleted:
            refuse(40406)
        self.delete(subject, [number], permanent=permanent)
        return number

    def delete_subject(self, subject: str, *, permanent: bool) -> list[int]:
        versions = self.subjects.get(subject) or refuse(40401)
        live = list(self.live(subject))
        if permanent and live:
            refuse(40405)
        if not permanent and not live:
            refuse(40404)
        numbers = sorted(versions) if permanent else live
        self.delete(subject, numbers, permanent=permanent, besides=subject)
        return numbers

    def delete(
        self, subject: str, numbers: list[int], *, permanent: bool, besides: str | None = None
    ) -> None:
        if self.is_read_only(subject):
            refuse(42205)
        if any(self.is_referred_to(subject, number, besides=besides) for number in numbers):
            refuse(42206)
        for number in numbers:
            if permanent:
                self.remove(subject, number)
            else:
                self.subjects[subject][number].is_deleted = True
        if subject not in self.subjects:
            self.levels.pop(subject, None)
            self.modes.pop(subject, None)

    def set_level(self, subject: str, level: str | None) -> str | None:
        if self.is_read_only(subject):
            refuse(42205)
        self.levels.pop(subject, None)
        if level is not None:
            self.levels[subject] = level
        return level

    def set_mode(self, subject: str, mode: str, *, force: bool) -> str:
        if self.modes.get(subject) == mode:
            return mode
        if mode == "IMPORT":
            scope = [each for each in self.subjects if subject in ("", each)]
            if not force and any(self.live(each) for each in scope):
                refuse(42205)
            for each in scope:
                for number, kept in list(self.subjects[each].items()):
                    if kept.is_deleted:
                        self.remove(each, number)
        self.modes[subject] = mode
        return mode
