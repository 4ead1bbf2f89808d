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
        opener: Opener | None = None,
    ) -> None:
        """Know callers by `sessions`, and decide by `grants`; `is_required`: nobody is anonymous.

        None: nothing is limited, nothing is told, and nothing taken that other servers seal.
        """
        self._sessions = sessions
        self.grants = grants
        """The rules and tokens that hold now."""
        self._clock = clock
        self._is_required = is_required
        self._are_docs_open = are_docs_open
        self._quotas = quotas
        self.trail = AuditTrail(clock, audit)
        self._opener = opener
        self._decisions: dict[tuple[bytes, str, str], tuple[int, Admitted]] = {}
        """By the credential's key, operation and path: until when somebody is let in so, in ms.

        Many requests have one `Admitted` then: it says nothing of the request itself.
        """
        grants.on_change.append(self._decisions.clear)

    def decisions_kept(self) -> int:
        """Return how many decisions are remembered."""
        return len(self._decisions)

    def sessions_kept(self) -> int:
        """Return how many sessions are remembered."""
        return len(self._sessions)

    def guards(self, operation: Guarded | None) -> bool:
        """Whether anything is asked of who wants an operation; None: what is none."""
        if operation is None:
            return True
        is_open = self._are_docs_open and operation.name in _OPEN_DOCS
        return operation.action is not None and not is_open

    # Who asks.

    async def admit(self, request: Request) -> None:
        """Let in who asks, and to do what is asked as far as the head of the request names it.

        Raises `NotAuthenticated`, `NotPermitted`, `TopicNotFound`, `RulesUnavailable`,
        `RateExceeded`.
        """
        request.admission = Admitted()
        session = self._known(request) or await self._verified(request)
        self._let_in(request, session, request.operation)

    def _known(self, request: Request) -> Session | None:
        """Return who asks, if that takes no waiting. Raises `NotAuthenticated`."""
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
        """Return who asks. Raises `NotAuthenticated`, `RateExceeded`."""
        try:
            if self._opener is not None and _FORWARD in request.headers:
                return self._opened(request, self._opener)
            header = request.authorization
            assert header is not None, "what is known without waiting is known by now"
            return await self._sessions.of_header(header, request.address)
        except TmsError as error:
            self.trail.unknown(request, error)

    def _opened(self, request: Request, opener: Opener) -> Session:
        """Return whom another server has verified, once its request is as it was sealed."""
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
        """Return whom a value of Authorization is for, and tell of it if it is nobody's.

        Raises `NotAuthenticated`, `RateExceeded`.
        """
        request.admission = request.admission or Admitted()  # none: everybody may ask
        try:
            return await self._sessions.of_header(header, request.address)
        except TmsError as error:
            self.trail.unknown(request, error)

    # Whether they may.

    def admits_again(self, request: Request) -> bool:
        """Whether somebody was let in just so of late, and so is again. Raises `RateExceeded`."""
        header, operation = request.authorization, request.operation
        if header is None or operation is None:
            return False
        kept = self._decisions.get((key_of(header), operation.name, request.path))
        if kept is None or self._clock.keys_ms() >= kept[0] or self.grants.is_stale:
            return False
        if request.fields.caller is not ANYBODY:
            return False
        if self._opener is not None and _FORWARD in request.headers:
            return False
        admission = request.admission = kept[1]
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
            if admission.via is None:  # those of servers are shared by all callers
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
        # What is told each time is decided each time.
        is_told = operation.is_always_audited or operation.action in ALWAYS
        if is_alike and not self.grants.is_stale and not is_told:
            self._keep(request, session, operation, admission)

    def _keep(
        self, request: Request, session: Session, operation: Guarded, admission: Admitted
    ) -> None:
        """Keep a decision if it is of a short key, and of a credential in its one spelling."""
        header, key = request.authorization, session.key
        size = len(key) + len(operation.name) + len(request.path)
        if header is None or key_of(header) != key or size > _KEPT_BYTES_MAX:
            return
        if len(self._decisions) >= _DECISIONS_MAX:
            del self._decisions[next(iter(self._decisions))]
        until_ms = min(session.ends_ms, self._clock.keys_ms() + _KEPT_MS)
        self._decisions[key, operation.name, request.path] = until_ms, admission

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
        assert action is not None, "an operation that needs nothing is not asked for"
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
        """Raise `NotPermitted` or `TopicNotFound` unless who asks may do an action to something."""
        session = _of(request).session
        assert session is not None, "who asks is known before anything is checked"
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

        Others have a turn after each `CHECKS_A_TURN`.
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
        """Whether who asks may do an action to something; nothing is told of it."""
        session = _of(request).session
        assert session is not None
        return self._ruling(session, action, resource, subscription).is_allowed

    async def check_again(self, request: Request) -> None:
        """Raise as at the start if who was let in may not go on. Cheap if nothing has changed."""
        admission, operation = _of(request), request.operation
        session = admission.session
        assert session is not None, "who goes on was let in"
        if session.is_over(self.grants, self._clock.keys_ms()):
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
        """Have it decided by whom the credential is for now: groups of a password may be others.

        Raises `NotAuthenticated` if the request was passed on to a server that knows others.
        """
        admission = _of(request)
        admission.rules_epoch = -1  # also for others that were let in by the same decision
        if operation is None:
            reason = "the groups changed during the request: send it again"
            self.trail.unknown(request, NotAuthenticated("credentials_invalid", reason=reason))
        admission.caller = self._caller_of(session, admission.caller.part)

    async def _verified_anew(self, request: Request, session: Session) -> Session:
        """Return who asks of whom that has ended: a password may hold on, all else does not."""
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
        """Tell that who asks may not do an action to something, and raise `NotPermitted`."""
        self._refuse(request, _use(action, resource), resource)

    def _refuse(
        self, request: Request, use: Use, resource: Resource, *, is_hidden: bool = False
    ) -> Never:
        """Raise `NotPermitted`; `is_hidden`: `TopicNotFound` instead."""
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
    assert request.admission is not None, "the door has been asked"
    return request.admission
