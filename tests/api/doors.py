"""Access control with real tokens and rules, but without a metadata store."""

from collections.abc import Iterable

from api.http.door.access_control import AccessControl
from tms.core.runtime.clock import Clock, SystemClock
from tms.metadata.host import MetadataHost
from tms.security.grants import GrantOptions, Grants
from tms.security.resources import ACTIONS_OF, Action, Kind
from tms.security.rules import Effect, Rule
from tms.security.sessions import Sessions, VerifyPassword
from tms.security.tokens import new_token

ROOT = "root"
"""The superuser."""


class Doors:
    """Grants in memory, and tokens by principal."""

    def __init__(self, clock: Clock | None = None, passwords: VerifyPassword | None = None) -> None:
        self.clock = clock or SystemClock()
        token, kept = new_token(ROOT)
        self.tokens = {ROOT: token}
        options = GrantOptions(superusers=frozenset([ROOT]), tokens=(kept,))
        self.grants = Grants(options, self.clock)
        self._sessions = Sessions(self.grants, self.clock, passwords=passwords)

    async def open(self) -> None:
        await self.grants.open(MetadataHost().open_session())

    def access(self, *, is_required: bool = True) -> AccessControl:
        return AccessControl(self._sessions, self.grants, self.clock, is_required=is_required)

    async def token(self, principal: str) -> str:
        """Return a token of somebody."""
        if principal not in self.tokens:
            self.tokens[principal], kept = new_token(principal)
            await self.grants.add_token(kept)
        return self.tokens[principal]

    async def id_of(self, principal: str) -> str:
        """Return the id of somebody's token."""
        return (await self.token(principal)).split("_")[1]

    async def allow(
        self, who: str, actions: Iterable[Action], namespace: str = "*", name: str = "*"
    ) -> Rule:
        """Allow actions on topics, or on the server if they are actions on a server."""
        wanted = frozenset(actions)
        is_of_server = wanted <= ACTIONS_OF[Kind.SERVER]
        kind = Kind.SERVER if is_of_server else Kind.TOPIC
        where = ("", "") if is_of_server else (namespace, name)
        return await self.grants.add_rule(Rule("", who, Effect.ALLOW, wanted, kind, *where))

    async def allow_subscriptions(
        self, who: str, namespace: str, name: str, subscription: str
    ) -> Rule:
        """Allow subscriptions of some names."""
        actions = frozenset([Action.SUBSCRIBE])
        where = Kind.TOPIC, namespace, name, subscription
        return await self.grants.add_rule(Rule("", who, Effect.ALLOW, actions, *where))


def bearer(token: str) -> dict[str, str]:
    return {"authorization": f"Bearer {token}"}
