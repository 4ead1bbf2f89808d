"""The rules and tokens in effect, live from the metadata store.

    /auth/rules/ID    a rule, as JSON            /auth/tokens/ID    the entry of a token

1. A change made here is in effect when the call returns; one made at another server as soon as the
   store reports it.
2. `epoch` grows with every change, which distinguishes earlier decisions from present ones.
3. The known rules and tokens are valid for `stale_s_max` after the last contact with the store;
   then `is_stale`. So no rule outlives its removal elsewhere for longer than that.
4. Without a metadata store there are only the superusers and the tokens of the settings.
"""

import hashlib
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from typing import TypeVar

import msgspec

from tms.core.errors import GrantNotFound, NoMetadataStore, PathNotFound, TooLarge
from tms.core.limits import MS_PER_S
from tms.core.runtime.clock import Clock
from tms.metadata.cache import JsonCodec
from tms.metadata.interface import MetadataStore
from tms.metadata.live_values import LiveValues
from tms.metadata.patience import once_reached
from tms.security.rule_book import RuleBook
from tms.security.rules import Rule
from tms.security.tokens import KeptToken

T = TypeVar("T")
RULES = "/auth/rules"
TOKENS = "/auth/tokens"
_ID_CHARS = 12
_ID = re.compile(r"[A-Za-z0-9_-]{1,255}", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class GrantOptions:
    """The grants outside the metadata store."""

    superusers: frozenset[str] = frozenset()
    tokens: tuple[KeptToken, ...] = ()
    """The tokens of the settings."""
    rules_max: int = 10_000
    tokens_max: int = 100_000
    stale_s_max: float = 60.0


def with_id(rule: Rule) -> Rule:
    """Return a rule with an id derived from its content, so adding it twice changes nothing."""
    encoded = msgspec.json.encode(replace(rule, id=""), order="deterministic")
    return replace(rule, id=hashlib.sha256(encoded).hexdigest()[:_ID_CHARS])


class Grants:
    """The rules and the tokens."""

    def __init__(self, options: GrantOptions, clock: Clock) -> None:
        """Hold the grants of the options; call `open` first."""
        self.book = RuleBook((), options.superusers)
        self.epoch = 0
        self.on_change: list[Callable[[], None]] = []
        """Called after every change."""
        self._options = options
        self._clock = clock
        self._given = {token.id: token for token in options.tokens}
        self._known: dict[str, Rule] = {}
        """The rules in the book."""
        self._of_who: dict[str, dict[str, Rule]] = {}
        self._rules: LiveValues[Rule] | None = None
        self._tokens: LiveValues[KeptToken] | None = None
        self._stale_ms = int(options.stale_s_max * MS_PER_S)
        self._fresh_until_ms = 0
        """Until when the known grants are surely not too old, by `steady_ms`."""

    async def open(self, store: MetadataStore | None) -> None:
        """Read everything in a store, which stays open, and follow it from now on.

        Waits for a store that is away.
        """
        if store is None:
            return
        self._rules = LiveValues(store, RULES, JsonCodec(Rule), self._rules_changed, self._clock)
        tokens = JsonCodec(KeptToken)
        self._tokens = LiveValues(store, TOKENS, tokens, self._tokens_changed, self._clock)
        await once_reached(self._rules.open)
        await once_reached(self._tokens.open)

    async def close(self) -> None:
        """Stop following the store."""
        for each in (self._rules, self._tokens):
            if each is not None:
                await each.close()

    @property
    def is_stale(self) -> bool:
        """Whether too much time has passed since the last contact with the store."""
        if self._rules is None or self._tokens is None:
            return False
        now_ms = self._clock.steady_ms()
        if now_ms < self._fresh_until_ms:
            return False
        known_ms = min(self._rules.known_at_ms, self._tokens.known_at_ms)
        self._fresh_until_ms = known_ms + self._stale_ms
        return now_ms > known_ms and now_ms >= self._fresh_until_ms

    def _tell(self) -> None:
        self.epoch += 1
        for callback in self.on_change:
            callback()

    # Rules.

    @property
    def rules(self) -> Collection[Rule]:
        """All rules."""
        return self._known.values()

    def rule(self, rule_id: str) -> Rule | None:
        """Return the rule with an id, None if there is none."""
        return self._known.get(rule_id)

    async def add_rule(self, rule: Rule) -> Rule:
        """Put a rule into effect, and return it with its id.

        Raises `TooLarge` (too_many_rules), `NoMetadataStore`, `MetadataUnavailable`,
        `OutcomeUnknown`.
        """
        rule = with_id(rule)
        if rule.id not in self._known and len(self._known) >= self._options.rules_max:
            raise TooLarge("too_many_rules", auth_rules_max=self._options.rules_max)
        # Even if it is known: another server may just have removed it.
        await _needed(self._rules).put(rule.id, rule)
        return rule

    async def remove_rule(self, rule_id: str) -> None:
        """Remove a rule. Raises `GrantNotFound`, and as `add_rule`."""
        if not await _deleted(self._rules, rule_id):
            raise GrantNotFound("rule_not_found", id=rule_id)

    def _rules_changed(self, names: Collection[str]) -> None:
        now = {} if self._rules is None else self._rules.values
        affected: set[str] = set()
        for name in names:
            gone, rule = self._known.pop(name, None), now.get(name)
            if gone is not None:
                self._of_who[gone.who].pop(name)
                affected.add(gone.who)
            if rule is not None:
                self._known[name] = rule
                self._of_who.setdefault(rule.who, {})[name] = rule
                affected.add(rule.who)
        self.book.replace_rules_of({who: self._of_who[who].values() for who in affected})
        for who in affected:
            if not self._of_who[who]:
                del self._of_who[who]
        self._tell()

    # Tokens.

    def token(self, token_id: str) -> KeptToken | None:
        """Return the entry of a token, None if there is none with that id."""
        own_token = self._given.get(token_id)
        if own_token is not None or self._tokens is None:
            return own_token
        return self._tokens.values.get(token_id)

    async def token_now(self, token_id: str) -> KeptToken | None:
        """Return the entry of a token, even if another server has just created it.

        Raises `MetadataUnavailable`.
        """
        token = self.token(token_id)
        if token is None and self._tokens is not None and _ID.fullmatch(token_id):
            await self._tokens.look(token_id)
            token = self.token(token_id)
        return token

    def is_setting(self, token_id: str) -> bool:
        """Whether a token comes from the settings, where alone it can be removed."""
        return token_id in self._given

    @property
    def tokens(self) -> Mapping[str, KeptToken]:
        """The tokens of the settings and of the metadata store."""
        kept = {} if self._tokens is None else self._tokens.values
        return {**kept, **self._given}

    async def add_token(self, token: KeptToken) -> None:
        """Add a token. Raises `TooLarge` (too_many_tokens), and as `add_rule`."""
        tokens = _needed(self._tokens)
        if len(tokens.values) >= self._options.tokens_max:
            raise TooLarge("too_many_tokens", auth_tokens_max=self._options.tokens_max)
        await tokens.put(token.id, token)

    async def remove_token(self, token_id: str) -> None:
        """Remove a token. Raises `GrantNotFound`, and as `add_rule`."""
        if not await _deleted(self._tokens, token_id):
            raise GrantNotFound("token_not_found", id=token_id)

    def _tokens_changed(self, names: Collection[str]) -> None:
        del names
        self._tell()


async def _deleted(values: LiveValues[T] | None, name: str) -> bool:
    """Delete a value, which this server may not know yet. Return whether it existed."""
    needed = _needed(values)
    if not _ID.fullmatch(name):
        return False
    try:
        await needed.delete(name)
    except PathNotFound:
        return False
    return True


def _needed(values: LiveValues[T] | None) -> LiveValues[T]:
    if values is None:
        raise NoMetadataStore
    return values
