"""Reports requests to the audit: each refusal, and each use when its outcome is known.

1. A use is told as its answer begins, with the answer's status. Until then it may turn out to be
   refused, also by the service behind the door: then it is told as denied, and not as allowed.
2. A refusal is told once, whoever found it.
3. What a server passes on is told by the one that decides. So nothing is told of what another
   server has answered 401 or 403.

Used from the event loop's thread alone; but a caller may say from any what it acts on.
"""

import asyncio
from dataclasses import replace
from functools import partial
from typing import Never

from api.http.door.request import Request, Use
from tms.core.errors import NotAuthenticated, NotPermitted, TmsError
from tms.core.runtime.clock import Clock
from tms.core.text.credentials import shortened
from tms.core.values.caller import Caller
from tms.security.audit import AUTHENTICATE, Audit
from tms.security.audit_record import AuditRecord
from tms.security.credentials import tried_by
from tms.security.resources import Action
from tms.security.rules import Effect

CHECKS_A_TURN = 256
"""After that many checks, or uses reported, of one request others have a turn."""
_PATH_CHARS_TOLD = 200
_REFUSALS = (401, 403)


class AuditTrail:
    """Tells the audit of requests."""

    def __init__(self, clock: Clock, audit: Audit | None = None) -> None:
        """Tell `audit`; None: nothing is told."""
        self._clock = clock
        self._audit = audit

    def used(self, request: Request, use: Use) -> None:
        """Take note of what was allowed."""
        if self._audit is None:
            return
        if request.uses is None:
            request.uses = {}
        request.uses[use.action, use.resource, id(use.rule), use.about] = use

    def noting(self, request: Request, caller: Caller) -> Caller:
        """Return a caller of whom it is noted what he acts on that is another's."""
        if not caller.may_end_any or self._audit is None:
            return caller
        return replace(caller, on_anothers=partial(self._acts_on, request))

    def _acts_on(self, request: Request, what: str) -> None:
        self.used(request, Use(Action.TRANSACT_ANY, what))

    async def tell_uses(self, request: Request) -> None:
        """Tell what was used, now that there is an answer or its beginning."""
        uses, audit, status = request.uses, self._audit, request.status
        if uses is None or audit is None or status in _REFUSALS:
            return
        request.uses = None
        always = request.operation is not None and request.operation.is_always_audited
        for at, use in enumerate(uses.values()):
            if at % CHECKS_A_TURN == CHECKS_A_TURN - 1:
                await asyncio.sleep(0)
            record = self._record(request, use, Effect.ALLOW, status or None)
            if always or audit.is_wanted(record.principal, use.action, use.resource, Effect.ALLOW):
                audit.add(record)

    def refused(self, request: Request, use: Use, error: TmsError) -> Never:
        """Tell that something was not allowed, and raise the error that says so."""
        request.refusal = error
        self._tell_refused(request, use, error)
        raise error

    def failed(self, request: Request, error: Exception) -> None:
        """Take note of the error by which a request ends. Refusals that nobody has told are told.

        The service refuses what the door cannot know of: what is another's, or its own.
        """
        if error is request.refusal or isinstance(error, NotAuthenticated):
            request.uses = None
        elif isinstance(error, NotPermitted):
            request.uses = None
            operation, detail = request.operation, error.detail
            if "resource" in detail:
                use = Use(str(detail["action"]), str(detail["resource"]))
            elif operation is not None:
                resource = operation.resource_of(request.names)
                use = Use(operation.action or "", str(resource), about=_about(error))
            else:
                return
            self._tell_refused(request, use, error, error.problem.code)

    def _tell_refused(
        self, request: Request, use: Use, error: TmsError, reason: str | None = None
    ) -> None:
        if self._audit is None:
            return
        record = self._record(request, use, Effect.DENY, error.status)
        if record.mechanism is None:  # anybody may ask as nobody, as often as they like
            self._audit.refuse(replace(record, reason=error.problem.code))
        else:
            self._audit.add(replace(record, reason=reason))

    def unknown(self, request: Request, error: TmsError) -> Never:
        """Tell that nobody knows who asks, and raise the error that says why."""
        request.refusal = error
        if self._audit is not None:
            header = request.authorization
            use = Use(AUTHENTICATE, shortened(request.path, _PATH_CHARS_TOLD))
            record = self._record(request, use, Effect.DENY, error.status)
            reason = str(error.detail.get("reason", error.problem.code))
            tried = None if header is None else tried_by(header)
            self._audit.refuse(replace(record, reason=reason, tried=tried))
        raise error

    def _record(
        self, request: Request, use: Use, effect: Effect, status: int | None
    ) -> AuditRecord:
        admission, operation = request.admission, request.operation
        assert admission is not None, "the door has been asked"
        session = admission.session
        return AuditRecord(
            time_ms=self._clock.now_ms(),
            principal=None if session is None else session.identity.principal,
            mechanism=None if session is None else session.mechanism,
            address=request.address,
            via=admission.via,
            action=use.action,
            resource=use.resource,
            effect=effect,
            rule=None if use.rule is None else use.rule.id,
            status=status,
            operation=None if operation is None else operation.name,
            about=use.about or request.about,
        )


def _about(error: TmsError) -> str | None:
    """Return whose or what a refusal of the service is about."""
    for name, told in (("transaction_id", "transaction"), ("owner", "owner")):
        if name in error.detail:
            return f"{told} {error.detail[name]}"
    return None
