"""A model of the messaging service: plain lists and the documented rules, without storage.

It assigns ids as DESIGN section 2 says, so that ids are compared too. Every method is the shortest
form of its rule, however slow.
"""

from dataclasses import dataclass, field

from tms.core.values.message import Message, MessageId, id_after
from tms.core.values.transaction import Transaction, Visibility


@dataclass
class Ids:
    """Ids that never go back: max(clock, last); within a millisecond, the sequence continues."""

    last: tuple[int, int] = (-1, -1)

    def take(self, now_ms: int) -> tuple[int, int]:
        timestamp, number = self.last
        self.last = (now_ms, 0) if now_ms > timestamp else (timestamp, number + 1)
        return self.last


@dataclass
class Entry:
    key: tuple[int, int]
    message: Message | None
    """Without an id. None for a reference."""
    write_pointer: int | None = None
    rolled_back: bool = False


@dataclass
class Generation:
    entries: list[Entry] = field(default_factory=list)
    stored: dict[int, list[tuple[tuple[int, int], Message]]] = field(default_factory=dict)
    stored_ids: dict[int, Ids] = field(default_factory=dict)


@dataclass
class ModelTopic:
    number: int
    ttl_s: int
    ids: Ids = field(default_factory=Ids)
    exists: bool = True
    data: Generation = field(default_factory=Generation)
    expired_ms: int = 0
    """Messages up to this time stay expired; they had expired when the ttl was raised."""

    def delete(self) -> None:
        self.exists = False

    def recreate(self, ttl_s: int) -> None:
        self.exists, self.ttl_s = True, ttl_s
        self.number += 1
        self.data = Generation()
        self.expired_ms = 0

    def first_live_ms(self, now_ms: int) -> int:
        return max(now_ms - self.ttl_s * 1000, self.expired_ms)

    def change_ttl(self, ttl_s: int, now_ms: int) -> None:
        if ttl_s > self.ttl_s:
            self.expired_ms = self.first_live_ms(now_ms)
        self.ttl_s = ttl_s

    def trim(self, before_ms: int) -> None:
        self.expired_ms = max(self.expired_ms, before_ms)

    def has_moved(self, if_last: bytes, now_ms: int) -> bool:
        """Whether a publish after `if_last` is refused; b"" stands for an empty topic."""
        keys = [MessageId(*entry.key).encode()[:10] for entry in self.data.entries]
        if not keys or not if_last:
            return bool(keys) or bool(if_last)
        return keys[-1] > if_last[:10] or bool(self.poll(id_after(if_last), 1, None, now_ms))

    def publish(
        self,
        messages: list[Message],
        write_pointer: int | None,
        now_ms: int,
        expiry_ms: int | None = None,
    ) -> list[Entry]:
        """Return the new entries; without messages, one reference, or the live one."""
        living = self._living_reference(write_pointer, now_ms if expiry_ms is None else expiry_ms)
        if not messages and living is not None:
            return [living]
        given: list[Message | None] = [*messages] or [None]
        new = [
            Entry(self.ids.take(max(now_ms, self.expired_ms)), message, write_pointer)
            for message in given
        ]
        self.data.entries += new
        return new

    def _living_reference(self, write_pointer: int | None, now_ms: int) -> Entry | None:
        oldest = self.first_live_ms(now_ms)
        for entry in self.data.entries:
            is_reference = entry.message is None and entry.write_pointer == write_pointer
            if is_reference and not entry.rolled_back and entry.key[0] >= oldest:
                return entry
        return None

    def store(self, messages: list[Message], write_pointer: int, now_ms: int) -> None:
        ids = self.data.stored_ids.setdefault(write_pointer, Ids())
        rows = self.data.stored.setdefault(write_pointer, [])
        least_ms = max(now_ms, self.expired_ms, self.ids.last[0])
        rows += [(ids.take(least_ms), message) for message in messages]

    def rollback(self, first: tuple[int, int], last: tuple[int, int], write_pointer: int) -> bool:
        """Return whether it is accepted."""
        touched = [entry for entry in self.data.entries if first <= entry.key <= last]
        own = [entry for entry in touched if entry.write_pointer == write_pointer]
        for entry in own:
            entry.rolled_back = True
        return bool(own) or not touched

    def poll(
        self, position: bytes, limit: int, transaction: Transaction | None, now_ms: int
    ) -> list[tuple[bytes, Message]]:
        oldest = self.first_live_ms(now_ms)
        found: list[tuple[bytes, Message]] = []
        for entry in self.data.entries:
            if entry.key[0] < oldest:
                continue
            messages = [
                (message_id.encode(), message)
                for message_id, message in self._messages(entry, oldest)
                if message_id.encode() >= position
            ]
            is_behind = MessageId(*entry.key, 2**63 - 1, 65_535).encode() < position
            decision = decide(entry, transaction)
            if decision is Visibility.STOP and not is_behind:
                # The reader examines the entry that contains its position, and all later ones.
                if entry.message is not None and not messages:
                    continue
                break
            if decision is Visibility.GIVE:
                found += messages
        return found[:limit]

    def _messages(self, entry: Entry, oldest: int) -> list[tuple[MessageId, Message]]:
        if entry.message is not None:
            return [(MessageId(*entry.key), entry.message)]
        assert entry.write_pointer is not None
        rows = self.data.stored.get(entry.write_pointer, [])
        return [(MessageId(*entry.key, *key), message) for key, message in rows if key[0] >= oldest]


def decide(entry: Entry, transaction: Transaction | None) -> Visibility:
    """The rule of DESIGN section 4 for one entry."""
    if transaction is None or entry.write_pointer is None:
        return Visibility.GIVE
    if entry.rolled_back:
        return Visibility.SKIP
    if transaction.is_visible(entry.write_pointer):
        return Visibility.GIVE
    if entry.write_pointer in transaction.invalids:
        return Visibility.SKIP
    return Visibility.STOP
