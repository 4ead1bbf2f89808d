"""A participant that records its calls, and fails on request."""

from collections.abc import Collection

from tms.core.values.transaction import Transaction


class Noting:
    """Appends `NAME.VERB` to a list of calls, which several participants may share."""

    def __init__(
        self,
        name: str = "one",
        calls: list[str] | None = None,
        *,
        fails_at: Collection[str] = (),
        keys: Collection[bytes] = (),
    ) -> None:
        self.name = name
        self.calls = [] if calls is None else calls
        self.transactions: list[Transaction] = []
        self._fails_at = fails_at
        self._keys = keys

    def _note(self, verb: str) -> None:
        self.calls.append(f"{self.name}.{verb}")
        if verb in self._fails_at:
            raise LookupError(f"{self.name} fails at {verb}")

    def start(self, tx: Transaction) -> None:
        self.transactions.append(tx)
        self._note("start")

    def update(self, tx: Transaction) -> None:
        self.transactions.append(tx)
        self._note("update")

    def changes(self) -> Collection[bytes]:
        self._note("changes")
        return self._keys

    def persist(self) -> None:
        self._note("persist")

    def post_commit(self) -> None:
        self._note("post_commit")

    def rollback(self) -> None:
        self._note("rollback")


class AsyncNoting:
    """The same with coroutine functions."""

    def __init__(self, participant: Noting) -> None:
        self._participant = participant
        self.name = participant.name

    async def start(self, tx: Transaction) -> None:
        self._participant.start(tx)

    async def update(self, tx: Transaction) -> None:
        self._participant.update(tx)

    async def changes(self) -> Collection[bytes]:
        return self._participant.changes()

    async def persist(self) -> None:
        self._participant.persist()

    async def post_commit(self) -> None:
        self._participant.post_commit()

    async def rollback(self) -> None:
        self._participant.rollback()
