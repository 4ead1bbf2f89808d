"""Random histories on one log, by several registries, compared with one plain model.

Every registry must answer as if it were the only one. In between, the answer to a write is lost, or
the registry dies before it gets it: the log shows whether the request was done. The log is
compacted, years pass, and some registries lag far behind.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from tests.registry.expected import Expected, Shape
from tests.registry.lossy import Died, LossyMessaging
from tests.registry.registries import Called, Registries, opened
from tms.core.limits import Limits
from tms.registry.registration import Registered
from tms.registry.state.registry_state import State
from tms.registry.state.settings import Config

SUBJECTS = st.sampled_from(["a", "a", "b"])
SHAPES = st.one_of(
    st.builds(Shape, st.just("record"), st.integers(1, 2), st.none()),
    st.builds(Shape, st.just("fixed"), st.integers(1, 2), st.none()),
    st.builds(Shape, st.just("written out"), st.integers(1, 2), st.none()),
)
WHICH = st.integers(0, 5)
NUMBERS = st.integers(1, 3)
IMPORTED = st.one_of(st.integers(1, 12), st.sampled_from([2**31 - 1, 2**31, 2**64]))
LOSSES = st.sampled_from([None, None, None, None, "lost", "not sent", "died", "died before"])
LEVELS = st.sampled_from([None, "NONE", "BACKWARD", "FULL_TRANSITIVE"])
MODES = st.sampled_from([*["READWRITE"] * 6, "READONLY", "READONLY_OVERRIDE", "IMPORT", "IMPORT"])
MESSAGES_MAX = 8
"""So few that a deletion of several versions needs several publishes."""
DAY_MS = 24 * 3600 * 1000


class Histories(RuleBasedStateMachine):
    registries_count = 1
    store = "memory:"

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.context = opened(self.store, Limits(request_messages_max=MESSAGES_MAX))
        self.made: Registries = self.run(self.context.__aenter__())
        self.expected = Expected()
        self.lossy = LossyMessaging(self.made.services.messaging)
        self.called = [self.start() for _ in range(self.registries_count)]

    def run(self, awaited: Awaitable[Any]) -> Any:
        async def wait() -> Any:
            return await awaited

        return self.runner.run(wait())

    def start(self) -> Called:
        messaging: Any = self.lossy
        return self.made.make(messaging=messaging)

    def teardown(self) -> None:
        self.run(self.context.__aexit__(None, None, None))
        self.runner.close()

    def seen(self) -> dict[str, Any]:
        """Return the state of a registry that reads the whole log now."""
        called = self.made.make()
        self.run(called.subjects())
        return shown(called.registry.state)

    def write(
        self,
        which: int,
        loss: str | None,
        act: Callable[[Expected], Any],
        ask: Callable[[Called], Awaitable[Any]],
    ) -> None:
        """Make a registry carry out a write, and check that it answers correctly."""
        number = which % len(self.called)
        after, answer = self.expected.tried(act)
        self.lossy.loss = loss
        try:
            told = self.run(ask(self.called[number]))
        except Died:
            self.called[number] = self.start()
            seen = self.seen()
            if seen not in (shown_of(after), shown_of(self.expected)):
                self.run(ask(self.called[number]))  # a part was done; this does the rest
                seen = shown_of(after)
            if seen == shown_of(after):
                self.expected = after
            return
        finally:
            self.lossy.loss = None
        assert told == answer, f"told {told}, expected {answer}"
        self.expected = after

    def write_schema(
        self,
        which: int,
        loss: str | None,
        subject: str,
        shape: Shape,
        *,
        wanted: int | None = None,
        version: int | None = None,
    ) -> None:
        async def ask(called: Called) -> Any:
            told = await called.register(
                subject, shape.text, shape.references, id=wanted, version=version
            )
            return (told.id, told.version) if isinstance(told, Registered) else told

        self.write(which, loss, lambda e: e.register(subject, shape, wanted, version), ask)

    @rule(which=WHICH, loss=LOSSES, subject=SUBJECTS, shape=SHAPES)
    def register(self, which: int, loss: str | None, subject: str, shape: Shape) -> None:
        self.write_schema(which, loss, subject, shape)

    @rule(which=WHICH, loss=LOSSES, subject=SUBJECTS, other=SUBJECTS, number=NUMBERS)
    def register_a_user(
        self, which: int, loss: str | None, subject: str, other: str, number: int
    ) -> None:
        kept = self.expected.subjects.get(other, {}).get(number)
        if kept is None or kept.shape.kind == "fixed":
            self.write_schema(which, loss, subject, Shape("user", 0, (other, number)))

    @rule(which=WHICH, loss=LOSSES, subject=SUBJECTS, size=st.integers(1, 2))
    def register_a_user_that_is_written_out(
        self, which: int, loss: str | None, subject: str, size: int
    ) -> None:
        """Register a type, another that refers to it, and then the same meaning in one text."""
        other = "a" if subject == "b" else "b"
        self.register(which, None, other, Shape("fixed", size))
        for number, kept in self.expected.live(other).items():
            if kept.shape == Shape("fixed", size):
                self.write_schema(which, None, subject, Shape("user", 0, (other, number)))
        self.write_schema(which, loss, subject, Shape("written out", size))

    @rule(
        which=WHICH,
        loss=LOSSES,
        subject=SUBJECTS,
        shape=SHAPES,
        numbers=st.tuples(IMPORTED, st.none() | NUMBERS),
    )
    def import_schema(
        self,
        which: int,
        loss: str | None,
        subject: str,
        shape: Shape,
        numbers: tuple[int, int | None],
    ) -> None:
        """Import a schema with an id, and perhaps as a version."""
        wanted, version = numbers
        if self.expected.mode(subject) == "IMPORT":
            self.write_schema(which, loss, subject, shape, wanted=wanted, version=version)
        elif wanted < 3:
            self.write_schema(which, loss, subject, shape, wanted=wanted)

    @rule(which=WHICH, subject=SUBJECTS, shapes=st.tuples(SHAPES, SHAPES), wanted=IMPORTED)
    def import_over_a_deleted_version(
        self, which: int, subject: str, shapes: tuple[Shape, Shape], wanted: int
    ) -> None:
        """Import a version, then another in its place, and let the tombstones expire."""
        self.set_mode(which, None, subject, "IMPORT", force=True)
        self.write_schema(which, None, subject, shapes[0], wanted=wanted, version=1)
        self.delete_version(which, None, subject, 1, permanent=False)
        self.write_schema(which, None, subject, shapes[1], wanted=2, version=1)
        self.set_mode(which, None, subject, "READWRITE", force=False)
        self.time_passes(1.1)
        self.compact()

    @rule(which=WHICH, loss=LOSSES, subject=SUBJECTS, number=NUMBERS, permanent=st.booleans())
    def delete_version(
        self, which: int, loss: str | None, subject: str, number: int, *, permanent: bool
    ) -> None:
        self.write(
            which,
            loss,
            lambda e: e.delete_version(subject, number, permanent=permanent),
            lambda called: called.delete(subject, str(number), permanent=permanent),
        )

    @rule(which=WHICH, loss=LOSSES, subject=SUBJECTS, permanent=st.booleans())
    def delete_subject(
        self, which: int, loss: str | None, subject: str, *, permanent: bool
    ) -> None:
        self.write(
            which,
            loss,
            lambda e: e.delete_subject(subject, permanent=permanent),
            lambda called: called.delete(subject, permanent=permanent),
        )

    @rule(which=WHICH, loss=LOSSES, subject=SUBJECTS | st.just(""), level=LEVELS)
    def set_level(self, which: int, loss: str | None, subject: str, level: str | None) -> None:
        async def ask(called: Called) -> Any:
            told = await called.set_level(subject, level)
            return told.compatibility if isinstance(told, Config) else told

        self.write(which, loss, lambda e: e.set_level(subject, level), ask)

    @rule(which=WHICH, loss=LOSSES, subject=SUBJECTS | st.just(""), mode=MODES, force=st.booleans())
    def set_mode(
        self, which: int, loss: str | None, subject: str, mode: str, *, force: bool
    ) -> None:
        self.write(
            which,
            loss,
            lambda e: e.set_mode(subject, mode, force=force),
            lambda called: called.set_mode(subject, mode, force=force),
        )

    @rule(which=WHICH, deleted=st.booleans())
    def list_subjects(self, which: int, *, deleted: bool) -> None:
        told = self.run(self.called[which % len(self.called)].subjects(deleted=deleted))
        assert told == sorted(
            subject for subject in self.expected.subjects if deleted or self.expected.live(subject)
        )

    @rule(which=WHICH, schema_id=st.integers(1, 8))
    def look_at_an_id(self, which: int, schema_id: int) -> None:
        """A registry may not know yet that an id is gone; then it returns what the id once had."""
        called = self.called[which % len(self.called)]
        told = self.run(called.text_of(schema_id))
        used = self.expected.used.get(schema_id)
        right = 40403 if used is None else used.text
        if told != right:
            assert told in self.expected.had.get(schema_id, ())
            self.run(called.subjects())
            assert self.run(called.text_of(schema_id)) == right

    @rule(which=WHICH, subject=SUBJECTS)
    def delete_and_forget(self, which: int, subject: str) -> None:
        """Delete a subject softly, then permanently, and let the tombstones expire."""
        self.delete_subject(which, None, subject, permanent=False)
        self.delete_subject(which, None, subject, permanent=True)
        self.time_passes(1.1)
        self.compact()

    @rule(which=WHICH, loss=LOSSES, subject=SUBJECTS)
    def delete_a_subject_that_refers_to_itself(
        self, which: int, loss: str | None, subject: str
    ) -> None:
        self.set_level(which, None, subject, "NONE")
        self.register(which, None, subject, Shape("fixed", 1))
        for number, kept in self.expected.live(subject).items():
            if kept.shape.kind == "fixed":
                self.write_schema(which, None, subject, Shape("user", 0, (subject, number)))
        self.delete_subject(which, loss, subject, permanent=False)

    @rule(which=WHICH, subject=SUBJECTS, shape=SHAPES)
    def delete_and_register_again(self, which: int, subject: str, shape: Shape) -> None:
        self.delete_subject(which, None, subject, permanent=False)
        self.register(which + 1, None, subject, shape)

    @rule()
    def compact(self) -> None:
        cleanup = self.made.services.cleanup
        assert cleanup is not None
        assert self.run(cleanup.run_pass(10.0))

    @rule(days=st.sampled_from([0.1, 0.4, 1.1]))
    def time_passes(self, days: float) -> None:
        self.made.clock.advance(int(days * DAY_MS))

    @precondition(lambda self: self.expected.subjects)
    @rule(which=WHICH)
    def start_anew(self, which: int) -> None:
        self.called[which % len(self.called)] = self.start()

    @invariant()
    def the_log_tells_what_is_expected(self) -> None:
        assert self.seen() == shown_of(self.expected)


def shown(state: State) -> dict[str, Any]:
    """Return the content of a state, without the parts that it may forget."""
    return {
        "versions": {
            subject: {
                each.number: (each.id, each.schema.text, each.schema.references, each.is_deleted)
                for each in state.versions(subject, deleted=True)
            }
            for subject in sorted(state.subjects)
        },
        "next_id": state.space(".").next_id,
        "levels": {scope: each.value.compatibility for scope, each in state.configs.items()},
        "modes": {scope: each.value for scope, each in state.modes.items()},
        "used": sorted(state.space(".").uses),
    }


def shown_of(expected: Expected) -> dict[str, Any]:
    """Return the same content of the expected state."""
    return {
        "versions": {
            subject: {
                number: (kept.id, kept.shape.text, kept.shape.references, kept.is_deleted)
                for number, kept in sorted(versions.items())
            }
            for subject, versions in sorted(expected.subjects.items())
        },
        "next_id": expected.next_id,
        "levels": expected.levels,
        "modes": expected.modes,
        "used": sorted(expected.used),
    }
