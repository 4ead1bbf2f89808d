"""Access control: authenticates callers, applies rules and quotas, and writes the audit.

1. The first credential present decides: one sealed by another server of the cluster, then
   Authorization, then the certificate of the connection. A bad one is 401, whatever the others are.
2. A decision that admits a caller is cached by credential, operation and path, which together have
   at most 512 bytes, until any rule or token changes, and for at most a minute. So a known caller
   costs a few look-ups in memory. Decisions that are always audited are not cached.
3. A topic on which a caller may do nothing at all is 404 for them, as if it did not exist.
4. A request that waits, or has a long answer, is checked again (`check_again`): if its permission
   was revoked in the meantime, it ends.

Used from the event loop's thread alone.
"""

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import Never

from api.http.door.admitted import Admitted
from api.http.door.audit_trail import CHECKS_A_TURN, AuditTrail
from api.http.door.guarded import DecidedBy, Guarded
from api.http.door.request import Request, Use
from tms.core.errors import (
    NotAuthenticated,
    NotPermitted,
    RulesUnavailable,
    TmsError,
    TopicNotFound,
)
from tms.core.runtime.clock import Clock
from tms.core.values.caller import ANYBODY, ASKING, Caller
from tms.core.values.topic import TopicId
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

CHECK_S = 5.0
"""The interval at which a waiting request is checked again."""
_FORWARD = HEADER.lower().encode()
_DECISIONS_MAX = 32_768
_KEPT_MS = 60_000
_KEPT_BYTES_MAX = 512
"""The most bytes of a credential's key, operation name and path for a cached decision."""
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
        opener: Opener | None = None,
    ) -> None:
        """Authenticate with `sessions`, and decide by `grants`.

        With `is_required`, nobody is anonymous. Without `quotas` nothing is limited, without
        `audit` nothing is audited, and without `opener` the seals of other servers are ignored.
        """
        self._sessions = sessions
        self.grants = grants
        """The current rules and tokens."""
        self._clock = clock
        self._is_required = is_required
        self._are_docs_open = are_docs_open
        self._quotas = quotas
        self.trail = AuditTrail(clock, audit)
        self._opener = opener
        self._decisions: dict[tuple[bytes, str, str], tuple[int, int, Admitted]] = {}
        """By the credential's key, operation and path: when the decision expires, in ms by steady
        time and since 1970, and the decision.

        Many requests share one `Admitted` then, so it says nothing about the request itself.
        """
        grants.on_change.append(self._decisions.clear)

    def decisions_kept(self) -> int:
        """Return the number of cached decisions."""
        return len(self._decisions)

    def sessions_kept(self) -> int:
        """Return the number of cached sessions."""
        return len(self._sessions)

    def guards(self, operation: Guarded | None) -> bool:
        """Whether an operation requires anything of its caller; None for unknown operations."""
        if operation is None:
            return True
        is_open = self._are_docs_open and operation.name in _OPEN_DOCS
        return operation.action is not None and not is_open

    # Authentication.

    async def admit(self, request: Request) -> None:
        """Authenticate the caller, and check access as far as the request's head decides it.

        Raises `NotAuthenticated`, `NotPermitted`, `TopicNotFound`, `RulesUnavailable`,
        `RateExceeded`.
        """
        request.admission = Admitted()
        session = self._known(request) or await self._verified(request)
        self._let_in(request, session, request.operation)

    def _known(self, request: Request) -> Session | None:
        """Return the caller's session if that takes no waiting. Raises `NotAuthenticated`."""
        if self._opener is not None and _FORWARD in request.headers:
            return None
        if request.authorization is not None:
            return self._sessions.cached(request.authorization)
        principal = request.connection.peer.certificate_principal
        if principal is not None:
            return self._sessions.of_certificate(principal)
        if self._is_required:
            self.trail.unknown(request, NotAuthenticated("credentials_required"))
        return self._sessions.anonymous

    async def _verified(self, request: Request) -> Session:
        """Return the caller's session. Raises `NotAuthenticated`, `RateExceeded`."""
        try:
            if self._opener is not None and _FORWARD in request.headers:
                return self._opened(request, self._opener)
            header = request.authorization
            assert header is not None, "without Authorization, `_known` has returned a session"
            return await self._sessions.of_header(header, request.address)
        except TmsError as error:
            self.trail.unknown(request, error)

    def _opened(self, request: Request, opener: Opener) -> Session:
        """Return the session that another server has verified, if its request matches the seal."""
        header = request.headers[_FORWARD]
        opened = opener.open(header, request.method, request.path, request.query)
        admission = _of(request)
        admission.via, admission.sealed_body = opened.sender, opened.body
        admission.own_boot = opener.boot
        fields = request.fields
        if request.whole_body is not None:
            admission.check_whole(request.whole_body)
        elif not length_fits(opened.body, None if fields.is_chunked else fields.body_bytes):
            raise refused_seal(opener.boot, "the body is not as it was sealed")
        if opened.identity is not None:
            return self._sessions.of_forward(opened.identity)
        if self._is_required:
            raise NotAuthenticated("credentials_required")
        return self._sessions.anonymous

    async def identify(self, request: Request, header: bytes) -> Session:
        """Return the session for a value of Authorization; an invalid one is audited.

        Raises `NotAuthenticated`, `RateExceeded`.
        """
        request.admission = request.admission or Admitted()  # None if everybody may call
        try:
            return await self._sessions.of_header(header, request.address)
        except TmsError as error:
            self.trail.unknown(request, error)

    # Authorization.

    def admits_again(self, request: Request) -> bool:
        """Whether a cached decision admits the request. Raises `RateExceeded`."""
        header, operation = request.authorization, request.operation
        if header is None or operation is None:
            return False
        kept = self._decisions.get((key_of(header), operation.name, request.path))
        if kept is None or self.grants.is_stale:
            return False
        steady_ends_ms, ends_ms, admission = kept
        if self._clock.steady_ms() >= steady_ends_ms or self._clock.keys_ms() >= ends_ms:
            return False
        if request.fields.caller is not ANYBODY:
            return False
        if self._opener is not None and _FORWARD in request.headers:
            return False
        request.admission = admission
        if admission.use is not None:
            request.connection.count_among(admission.use.connections)
        ASKING.set(admission.caller)
        return True

    def _let_in(self, request: Request, session: Session, operation: Guarded | None) -> None:
        admission = _of(request)
        admission.session = session
        admission.rules_epoch = self.grants.epoch
        if admission.via is not None:
            request.connection.is_of_server = True
        if self._quotas is not None and not self._is_exempt(session.identity):
            use = admission.use = self._quotas.of(session.identity.principal)
            use.take_request()
            if admission.via is None:  # all callers share the connections of servers
                request.connection.count_among(use.connections)
        if operation is None:
            self._check_fresh(session)
            return
        self._decide(request, session, operation)
        caller = request.fields.caller
        admission.caller = self._caller_of(session, caller.part)
        ASKING.set(admission.caller)
        is_counted = self._quotas is not None and self._quotas.limits.are_by_time
        is_alike = caller is ANYBODY and admission.via is None and not is_counted
        # An operation that is always audited is always decided.
        is_always_audited = operation.is_always_audited or operation.action in ALWAYS
        if is_alike and not self.grants.is_stale and not is_always_audited:
            self._keep(request, session, operation, admission)

    def _keep(
        self, request: Request, session: Session, operation: Guarded, admission: Admitted
    ) -> None:
        """Cache a decision if its key is short, and its credential is in its canonical spelling."""
        header, key = request.authorization, session.key
        size = len(key) + len(operation.name) + len(request.path)
        if header is None or key_of(header) != key or size > _KEPT_BYTES_MAX:
            return
        if len(self._decisions) >= _DECISIONS_MAX:
            del self._decisions[next(iter(self._decisions))]
        steady_ends_ms = min(session.steady_ends_ms, self._clock.steady_ms() + _KEPT_MS)
        kept = steady_ends_ms, session.ends_ms, admission
        self._decisions[key, operation.name, request.path] = kept

    def _is_exempt(self, identity: Identity) -> bool:
        return self.grants.book.is_superuser(identity) or identity.principal.startswith(SERVER)

    def _caller_of(self, session: Session, part: str | None) -> Caller:
        may_end_any = self._ruling(session, Action.TRANSACT_ANY, THE_SERVER).is_allowed
        has_all = self._is_exempt(session.identity)
        may_on_subject = partial(self._may_on_subject, session)
        who = session.identity
        return Caller(who.principal, part, who.groups, may_end_any, has_all, may_on_subject)

    def _may_on_subject(self, session: Session, action: str, subject: str) -> bool:
        resource = subject_resource(subject or None)
        return self._ruling(session, Action(action), resource).is_allowed

    def _decide(self, request: Request, session: Session, operation: Guarded) -> None:
        action = operation.action
        assert action is not None, "an operation that needs no action is not decided"
        if operation.decided_by is DecidedBy.ANSWER:
            self._check_fresh(session)
            self.trail.used(request, _use(action, operation.resource_of(request.names)))
            return
        if operation.decided_by is DecidedBy.BODY:
            self._check_fresh(session)
            namespace = request.names["namespace"]
            if not self.grants.book.may_within(session.identity, action, namespace):
                self.refuse(request, action, topic_resource(namespace, None))
            return
        subscription = request.names.get("subscription")
        resource = operation.resource_of(request.names)
        other = operation.or_action
        if other is not None and not self.may(request, action, resource, subscription):
            action = other if self.may(request, other, resource, subscription) else action
        self.check(request, action, resource, subscription)

    def check(
        self,
        request: Request,
        action: Action,
        resource: Resource,
        subscription: str | None = None,
    ) -> None:
        """Raise `NotPermitted` or `TopicNotFound` unless the caller may do `action`."""
        session = _of(request).session
        assert session is not None, "callers are authenticated before anything is checked"
        self._check_fresh(session)
        ruling = self._ruling(session, action, resource, subscription)
        if not ruling.is_allowed:
            is_hidden = not ruling.is_visible and resource.kind is Kind.TOPIC
            use = _use(action, resource, ruling.rule, subscription)
            self._refuse(request, use, resource, is_hidden=is_hidden)
        self.trail.used(request, _use(action, resource, ruling.rule, subscription))

    async def check_topics(
        self,
        request: Request,
        action: Action,
        topics: Sequence[TopicId],
        subscriptions: Sequence[str] = (),
    ) -> None:
        """Check topics that a body names, each with its subscription if there are any.

        Other requests get a turn after each `CHECKS_A_TURN`.
        """
        for at, topic in enumerate(topics):
            if at % CHECKS_A_TURN == CHECKS_A_TURN - 1:
                await asyncio.sleep(0)
            subscription = subscriptions[at] if subscriptions else None
            self.check(request, action, topic_resource(topic.namespace, topic.name), subscription)

    def may(
        self,
        request: Request,
        action: Action,
        resource: Resource,
        subscription: str | None = None,
    ) -> bool:
        """Whether the caller may do `action`; not audited."""
        session = _of(request).session
        assert session is not None
        return self._ruling(session, action, resource, subscription).is_allowed

    async def check_again(self, request: Request) -> None:
        """Raise as at the start if the request may not continue. Cheap if nothing has changed."""
        admission, operation = _of(request), request.operation
        session = admission.session
        assert session is not None, "a request that continues was admitted"
        if session.is_over(self.grants, self._clock):
            before, session = session, await self._verified_anew(request, session)
            admission.session = session
            if session.identity != before.identity:
                self._decide_anew(request, session, operation)
        epoch = self.grants.epoch
        if admission.rules_epoch != epoch or self.grants.is_stale:
            if operation is None:
                self._check_fresh(session)
            else:
                self._decide(request, session, operation)
            admission.rules_epoch = epoch

    def _decide_anew(self, request: Request, session: Session, operation: Guarded | None) -> None:
        """Decide again for the current identity: the groups of a password may have changed.

        Raises `NotAuthenticated` if the request was forwarded from a server with other groups.
        """
        admission = _of(request)
        admission.rules_epoch = -1  # also for others admitted by the same decision
        if operation is None:
            reason = "the groups changed during the request: send it again"
            self.trail.unknown(request, NotAuthenticated("credentials_invalid", reason=reason))
        admission.caller = self._caller_of(session, admission.caller.part)

    async def _verified_anew(self, request: Request, session: Session) -> Session:
        """Return a new session for one that has ended: only a password may still be valid."""
        header = request.authorization
        if session.mechanism is not Scheme.BASIC or header is None:
            reason = "they expired or were revoked during the request"
            self.trail.unknown(request, NotAuthenticated("credentials_invalid", reason=reason))
        return self._sessions.cached(header) or await self._verified(request)

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

    def refuse(self, request: Request, action: Action, resource: Resource) -> Never:
        """Audit a refusal, and raise `NotPermitted`."""
        self._refuse(request, _use(action, resource), resource)

    def _refuse(
        self, request: Request, use: Use, resource: Resource, *, is_hidden: bool = False
    ) -> Never:
        """Raise `NotPermitted`, or `TopicNotFound` if the topic `is_hidden`."""
        error: TmsError = NotPermitted(action=use.action, resource=use.resource)
        if is_hidden and resource.name is not None:
            error = TopicNotFound(topic=use.resource)
        self.trail.refused(request, use, error)


def _use(
    action: Action, resource: Resource, rule: Rule | None = None, subscription: str | None = None
) -> Use:
    about = None if subscription in (None, SOME) else f"subscription {subscription}"
    return Use(action, str(resource), rule, about)


def _of(request: Request) -> Admitted:
    assert request.admission is not None, "access control has seen the request"
    return request.admission
