"""A stateful model of a metadata store."""

import asyncio
from dataclasses import dataclass

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from tms.core.errors import TmsError
from tms.metadata.host import MetadataHost
from tms.metadata.interface import MetadataStore, Notification
from tms.metadata.local import LocalSession
from tms.metadata.paths import parent_of

PATHS = st.sampled_from(["/a", "/a/b", "/a/b/c", "/a-", "/d/e", "/d/f", "/d"])


VERSIONS = st.none() | st.integers(-1, 2)


SESSIONS = st.integers(0, 2)


@dataclass
class Model:
    value: bytes
    version: int
    owner: int | None


class StoreMachine(RuleBasedStateMachine):
    """Three sessions, and the values that they must return."""

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.model: dict[str, Model] = {}
        self.told: list[Notification] = []
        self.children: dict[str, list[str]] = {}
        self.revision = 0
        self.runner.run(self.begin())
        self.sessions = [self.open() for _ in range(3)]
        self.owners = [0, 1, 2]
        self.watcher = self.open()
        self.watcher.observe(self.told.append)

    async def begin(self) -> None:
        self.host = MetadataHost()

    def open(self) -> MetadataStore:
        return self.host.open_session()

    def expire(self, number: int) -> None:
        session = self.sessions[number]
        assert isinstance(session, LocalSession)
        self.runner.run(self.host.expire(session))
        self.host.reconnect(session)

    def teardown(self) -> None:
        self.runner.close()

    def below(self, path: str) -> list[str]:
        return [other for other in self.model if other.startswith(f"{path}/")]

    def names_below(self, path: str) -> list[str]:
        prefix = path.rstrip("/") + "/"
        return sorted({p[len(prefix) :].split("/")[0] for p in self.model if p.startswith(prefix)})

    def put_refusal(self, path: str, expected: int | None, *, ephemeral: bool) -> str | None:
        old = self.model.get(path)
        if expected is not None and expected != (-1 if old is None else old.version):
            return "bad_version"
        if old is not None:
            return None
        above = path
        while above != "/":
            above = parent_of(above)
            if above in self.model and self.model[above].owner is not None:
                return "invalid_path"
        return "path_has_children" if ephemeral and self.below(path) else None

    @rule(
        number=SESSIONS,
        path=PATHS,
        value=st.binary(max_size=3),
        expected=VERSIONS,
        ephemeral=st.booleans(),
    )
    def put(
        self, number: int, path: str, value: bytes, expected: int | None, *, ephemeral: bool
    ) -> None:
        session = self.sessions[number]
        refusal = self.put_refusal(path, expected, ephemeral=ephemeral)
        try:
            stat = self.runner.run(session.put(path, value, expected, ephemeral=ephemeral))
        except TmsError as error:
            assert error.problem.code == refusal
            return
        assert refusal is None
        old = self.model.get(path)
        owner = self.owners[number] if ephemeral else None
        new = Model(value, 0, owner) if old is None else Model(value, old.version + 1, old.owner)
        self.model[path] = new
        assert stat.modified_revision > self.revision
        self.revision = stat.modified_revision
        assert (stat.version, stat.created_by_self) == (
            new.version,
            new.owner == self.owners[number],
        )

    @rule(number=SESSIONS, path=PATHS, expected=VERSIONS)
    def delete(self, number: int, path: str, expected: int | None) -> None:
        old = self.model.get(path)
        refusal = None
        if old is None:
            refusal = "path_not_found"
        elif expected is not None and expected != old.version:
            refusal = "bad_version"
        elif self.below(path):
            refusal = "path_has_children"
        try:
            self.runner.run(self.sessions[number].delete(path, expected))
        except TmsError as error:
            assert error.problem.code == refusal
            return
        assert refusal is None
        del self.model[path]

    @rule(number=SESSIONS, path=PATHS)
    def delete_recursive(self, number: int, path: str) -> None:
        self.runner.run(self.sessions[number].delete_recursive(path))
        for gone in [path, *self.below(path)]:
            self.model.pop(gone, None)

    @rule(number=SESSIONS, how=st.sampled_from(["close", "expire"]))
    def end(self, number: int, how: str) -> None:
        ended = self.owners[number]
        self.owners[number] = max(self.owners) + 1
        if how == "close":
            self.runner.run(self.sessions[number].close())
            self.sessions[number] = self.open()
        else:
            self.expire(number)
        self.model = {path: m for path, m in self.model.items() if m.owner != ended}

    @invariant()
    def every_session_sees_the_model(self) -> None:
        for owner, session in zip(self.owners, self.sessions, strict=True):
            for path in ("/a", "/a/b", "/a/b/c", "/a-", "/d/e", "/d/f", "/d"):
                found = self.runner.run(session.get(path))
                wanted = self.model.get(path)
                assert (found is None) == (wanted is None)
                if found is not None and wanted is not None:
                    assert (found.value, found.stat.version) == (wanted.value, wanted.version)
                    assert found.stat.is_ephemeral == (wanted.owner is not None)
                    assert found.stat.created_by_self == (wanted.owner == owner)

    @invariant()
    def a_listing_changes_only_where_it_was_told(self) -> None:
        changed = {told.path for told in self.told if told.change.name == "CHILDREN_CHANGED"}
        self.told.clear()
        for path in ("/", "/a", "/a/b", "/d"):
            names = self.runner.run(self.watcher.get_children(path))
            assert names == self.names_below(path)
            assert names == self.children.get(path, []) or path in changed
            self.children[path] = names
