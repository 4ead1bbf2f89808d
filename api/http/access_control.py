"""Who asks, whether they may, how much they may, and what is told of it: asked at the door.

1. The first credential that is there decides: what another server of the cluster has sealed, then
   Authorization, then the certificate of the connection. A bad one is 401, whatever else there is.
2. A decision that lets somebody in is kept for a credential, an operation and a path, which have
   512 bytes together at most, until any rule or token changes, and a minute at most. So a known
   caller costs a few looks into memory. Decisions that are told each time are not kept.
3. A topic on which somebody may do nothing at all is 404 to them, as one that is not there.
4. Whoever waits, or is sent a long answer, asks again (`check_again`): what was revoked meanwhile
   ends that.

Used from the event loop's thread alone.
"""

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Never

from api.http.admitted import Admitted
from api.http.audit_trail import AuditTrail, Use
from api.http.operation import DecidedBy, Operation
from tms.core.caller import ANYBODY, ASKING, Caller
from tms.core.clock import Clock
from tms.core.errors import (
    NotAuthenticated,
    NotPermitted,
    RulesUnavailable,
    TmsError,
    TopicNotFound,
)
from tms.core.topic import TopicId
from tms.security.audit import ALWAYS, Audit
from tms.security.credentials import Scheme
from tms.security.forwards import HEADER, Opener, length_fits, refused_seal
from tms.security.grants import Grants
from tms.security.principals import SERVER
from tms.security.quotas import Quotas
from tms.security.resources import SERVER as THE_SERVER
from tms.security.resources import Action, Kind, Resource, subject_resource, topic_resource
from tms.security.rule_book import SOME, Ruling
from tms.security.rules import Identity, Rule, is_topic_of_service
from tms.security.sessions import Session, Sessions, key_of

if TYPE_CHECKING:
    from api.http.exchange import Exchange

CHECK_S = 5.0
"""How often whoever waits asks again."""
_FORWARD = HEADER.lower().encode()
_DECISIONS_MAX = 32_768
_KEPT_MS = 60_000
_KEPT_BYTES_MAX = 512
"""The most bytes of a credential's key, an operation's name and a path for a kept decision."""
_OPEN_DOCS = ("docs", "openapi")


class AccessControl:
    """The access control of a server's applications."""

    def __init__(
        self,
        sessions: Sessions,
        grants: Grants,
        clock: Clock,
        *,
        is_required: bool,
        are_docs_open: bool = False,
        quotas: Quotas | None = None,
        audit: Audit | None = None,
    ) -> None:
        """Know callers by `sessions`, and decide by `grants`; `is_required`: nobody is anonymous.

        None: nothing is limited, and nothing is told.
        """
        self._sessions = sessions
        self.grants = grants
        """The rules and tokens that hold now."""
        self._clock = clock
        self._is_required = is_required
        self._are_docs_open = are_docs_open
        self._quotas = quotas
        self.trail = AuditTrail(clock, audit)
        self._opener: Opener | None = None
        self._decisions: dict[tuple[bytes, str, str], tuple[int, Admitted]] = {}
        """By the credential's key, operation and path: until when somebody is let in so, in ms.

        Many requests have one `Admitted` then: it says nothing of the request itself.
        """
        grants.on_change.append(self._decisions.clear)

    def open_forwards(self, opener: Opener) -> None:
        """Take what other servers seal from now on."""
        self._opener = opener

    def guards(self, operation: Operation | None) -> bool:
        """Whether anything is asked of who wants an operation; None: what is none."""
        if operation is None:
            return True
        is_open = self._are_docs_open and operation.name in _OPEN_DOCS
        return operation.action is not None and not is_open

    # Who asks.

    def known(self, exchange: "Exchange") -> Session | None:
        """Return who asks, if that takes no waiting. Raises `NotAuthenticated`."""
        exchange.admission = Admitted()
        if self._opener is not None and _FORWARD in exchange.headers:
            return None
        if exchange.authorization is not None:
            return self._sessions.known(exchange.authorization)
        principal = exchange.peer.certificate_principal
        if principal is not None:
            return self._sessions.of_certificate(principal)
        if self._is_required:
            self.trail.unknown(exchange, NotAuthenticated("credentials_required"))
        return self._sessions.anonymous

    async def verified(self, exchange: "Exchange") -> Session:
        """Return who asks. Raises `NotAuthenticated`, `RateExceeded`."""
        try:
            if self._opener is not None and _FORWARD in exchange.headers:
                return self._opened(exchange, self._opener)
            header = exchange.authorization
            assert header is not None, "what is known without waiting is known by now"
            return await self._sessions.of_header(header, exchange.peer.address)
        except TmsError as error:
            self.trail.unknown(exchange, error)

    def _opened(self, exchange: "Exchange", opener: Opener) -> Session:
        """Return whom another server has verified, once its request is as it was sealed."""
        header = exchange.headers[_FORWARD]
        opened = opener.open(header, exchange.method, exchange.path, exchange.query)
        admission = _of(exchange)
        admission.via, admission.sealed_body = opened.sender, opened.body
        admission.own_boot = opener.boot
        fields = exchange.fields
        if exchange.whole_body is not None:
            admission.check_whole(exchange.whole_body)
        elif not length_fits(opened.body, None if fields.is_chunked else fields.body_bytes):
            raise refused_seal(opener.boot, "the body is not as it was sealed")
        if opened.identity is not None:
            return self._sessions.of_forward(opened.identity)
        if self._is_required:
            raise NotAuthenticated("credentials_required")
        return self._sessions.anonymous

    # Whether they may.

    def admits_again(self, exchange: "Exchange", operation: Operation | None) -> bool:
        """Whether somebody was let in just so of late, and so is again. Raises `RateExceeded`."""
        header = exchange.authorization
        if header is None or operation is None:
            return False
        kept = self._decisions.get((key_of(header), operation.name, exchange.path))
        if kept is None or self._clock.keys_ms() >= kept[0] or self.grants.is_stale:
            return False
        if exchange.fields.caller is not ANYBODY:
            return False
        if self._opener is not None and _FORWARD in exchange.headers:
            return False
        admission = exchange.admission = kept[1]
        if admission.use is not None:
            exchange.count_connection(admission.use.connections)
        ASKING.set(admission.caller)
        return True

    def admit(self, exchange: "Exchange", session: Session, operation: Operation | None) -> None:
        """Let a caller do an operation, as far as the head of the request names what to.

        None: what is no operation, or is done elsewhere. Raises `NotPermitted`, `TopicNotFound`,
        `RulesUnavailable`, `RateExceeded`.
        """
        admission = _of(exchange)
        admission.session = session
        admission.rules_epoch = self.grants.epoch
        if admission.via is not None:
            exchange.comes_from_server()
        if self._quotas is not None and not self._is_exempt(session.identity):
            use = admission.use = self._quotas.of(session.identity.principal)
            use.take_request()
            if admission.via is None:  # those of servers are shared by all callers
                exchange.count_connection(use.connections)
        if operation is None:
            self._check_fresh(session)
            return
        self._decide(exchange, session, operation)
        caller = exchange.fields.caller
        admission.caller = self._caller_of(session, caller.part)
        ASKING.set(admission.caller)
        is_counted = self._quotas is not None and self._quotas.limits.are_by_time
        is_alike = caller is ANYBODY and admission.via is None and not is_counted
        # What is told each time is decided each time.
        if is_alike and not self.grants.is_stale and operation.action not in ALWAYS:
            self._keep(exchange, session, operation, admission)

    def _keep(
        self, exchange: "Exchange", session: Session, operation: Operation, admission: Admitted
    ) -> None:
        """Keep a decision if it is of a short key, and of a credential in its one spelling."""
        header, key = exchange.authorization, session.key
        size = len(key) + len(operation.name) + len(exchange.path)
        if header is None or key_of(header) != key or size > _KEPT_BYTES_MAX:
            return
        if len(self._decisions) >= _DECISIONS_MAX:
            del self._decisions[next(iter(self._decisions))]
        until_ms = min(session.ends_ms, self._clock.keys_ms() + _KEPT_MS)
        self._decisions[key, operation.name, exchange.path] = until_ms, admission

    def _is_exempt(self, identity: Identity) -> bool:
        return self.grants.book.is_superuser(identity) or identity.principal.startswith(SERVER)

    def _caller_of(self, session: Session, part: str | None) -> Caller:
        may_end_any = self._ruling(session, Action.TRANSACT_ANY, THE_SERVER).is_allowed
        has_all = self._is_exempt(session.identity)
        may_on_subject = partial(self._may_on_subject, session)
        return Caller(session.identity.principal, part, may_end_any, has_all, may_on_subject)

    def _may_on_subject(self, session: Session, action: str, subject: str) -> bool:
        resource = subject_resource(subject or None)
        return self._ruling(session, Action(action), resource).is_allowed

    def _decide(self, exchange: "Exchange", session: Session, operation: Operation) -> None:
        action = operation.action
        assert action is not None, "an operation that needs nothing is not asked for"
        if operation.decided_by is DecidedBy.ANSWER:
            self._check_fresh(session)
            self.trail.used(exchange, _use(action, operation.resource_of(exchange.names)))
            return
        if operation.decided_by is DecidedBy.BODY:
            self._check_fresh(session)
            namespace = exchange.names["namespace"]
            if not self.grants.book.may_within(session.identity, action, namespace):
                self.refuse(exchange, action, topic_resource(namespace, None))
            return
        subscription = exchange.names.get("subscription")
        self.check(exchange, action, operation.resource_of(exchange.names), subscription)

    def check(
        self,
        exchange: "Exchange",
        action: Action,
        resource: Resource,
        subscription: str | None = None,
    ) -> None:
        """Raise `NotPermitted` or `TopicNotFound` unless who asks may do an action to something."""
        session = _of(exchange).session
        assert session is not None, "who asks is known before anything is checked"
        self._check_fresh(session)
        ruling = self._ruling(session, action, resource, subscription)
        if not ruling.is_allowed:
            is_hidden = not ruling.is_visible and resource.kind is Kind.TOPIC
            use = _use(action, resource, ruling.rule, subscription)
            self._refuse(exchange, use, resource, is_hidden=is_hidden)
        self.trail.used(exchange, _use(action, resource, ruling.rule, subscription))

    def check_topics(
        self,
        exchange: "Exchange",
        action: Action,
        topics: Sequence[TopicId],
        subscriptions: Sequence[str] = (),
    ) -> None:
        """Check topics that a body names, each with its subscription if there are any."""
        for at, topic in enumerate(topics):
            subscription = subscriptions[at] if subscriptions else None
            self.check(exchange, action, topic_resource(topic.namespace, topic.name), subscription)

    def may(
        self,
        exchange: "Exchange",
        action: Action,
        resource: Resource,
        subscription: str | None = None,
    ) -> bool:
        """Whether who asks may do an action to something; nothing is told of it."""
        session = _of(exchange).session
        assert session is not None
        return self._ruling(session, action, resource, subscription).is_allowed

    async def check_again(self, exchange: "Exchange", operation: Operation | None) -> None:
        """Raise as at the start if who was let in may not go on. Cheap if nothing has changed."""
        admission = _of(exchange)
        session = admission.session
        assert session is not None, "who goes on was let in"
        if session.is_over(self.grants, self._clock.keys_ms()):
            before, session = session, await self._verified_anew(exchange, session)
            admission.session = session
            if session.identity != before.identity:
                self._decide_anew(exchange, session, operation)
        epoch = self.grants.epoch
        if admission.rules_epoch != epoch or self.grants.is_stale:
            if operation is None:
                self._check_fresh(session)
            else:
                self._decide(exchange, session, operation)
            admission.rules_epoch = epoch

    def _decide_anew(
        self, exchange: "Exchange", session: Session, operation: Operation | None
    ) -> None:
        """Decide it for the present identity of the credential: groups of a password may change.

        Raises `NotAuthenticated` if the request was passed on to a server that knows others.
        """
        admission = _of(exchange)
        admission.rules_epoch = -1  # also for others that were let in by the same decision
        if operation is None:
            reason = "the groups have changed during the request: send it again"
            self.trail.unknown(exchange, NotAuthenticated("credentials_invalid", reason=reason))
        admission.caller = self._caller_of(session, admission.caller.part)

    async def _verified_anew(self, exchange: "Exchange", session: Session) -> Session:
        """Return who asks of whom that has ended: a password may hold on, all else does not."""
        header = exchange.authorization
        if session.mechanism is not Scheme.BASIC or header is None:
            reason = "they have expired, or were revoked, during the request"
            self.trail.unknown(exchange, NotAuthenticated("credentials_invalid", reason=reason))
        return self._sessions.known(header) or await self.verified(exchange)

    def _check_fresh(self, session: Session) -> None:
        if self.grants.is_stale and not self.grants.book.is_superuser(session.identity):
            raise RulesUnavailable

    def _ruling(
        self, session: Session, action: Action, resource: Resource, subscription: str | None = None
    ) -> Ruling:
        if session.identity.principal.startswith(SERVER):
            # A server's own calls: it reads and writes the topics of the service's parts.
            is_own = is_topic_of_service(resource)
            return Ruling(is_own, None, is_own)
        return self.grants.book.decide(session.identity, action, resource, subscription)

    def refuse(self, exchange: "Exchange", action: Action, resource: Resource) -> Never:
        """Tell that who asks may not do an action to something, and raise `NotPermitted`."""
        self._refuse(exchange, _use(action, resource), resource)

    def _refuse(
        self, exchange: "Exchange", use: Use, resource: Resource, *, is_hidden: bool = False
    ) -> Never:
        """Raise `NotPermitted`; `is_hidden`: `TopicNotFound` instead."""
        error: TmsError = NotPermitted(action=use.action, resource=use.resource)
        if is_hidden and resource.name is not None:
            error = TopicNotFound(topic=use.resource)
        self.trail.refused(exchange, use, error)


def _use(
    action: Action, resource: Resource, rule: Rule | None = None, subscription: str | None = None
) -> Use:
    about = None if subscription in (None, SOME) else f"subscription {subscription}"
    return Use(action, str(resource), rule, about)


def _of(exchange: "Exchange") -> Admitted:
    assert exchange.admission is not None, "the door has been asked"
    return exchange.admission
