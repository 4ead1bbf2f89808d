"""Reports requests to the audit: each refusal, and each use when its outcome is known.

1. A use is reported when its answer begins, with the answer's status. Until then it may still be
   refused, even by the service: then it is reported as denied, not as allowed.
2. A refusal is reported once, wherever it was found.
3. A forwarded request is reported by the server that decides. So nothing is reported if another
   server has answered 401 or 403.

Used from the event loop's thread alone, except that `Caller.on_anothers` works in any thread.
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
"""After this number of checks, or reported uses, of one request, others get a turn."""
_PATH_CHARS_MAX = 200
_REFUSALS = (401, 403)


class AuditTrail:
    """Reports requests to the audit."""

    def __init__(self, clock: Clock, audit: Audit | None = None) -> None:
        """Report to `audit`; None disables it."""
        self._clock = clock
        self._audit = audit

    def used(self, request: Request, use: Use) -> None:
        """Record an allowed use."""
        if self._audit is None:
            return
        if request.uses is None:
            request.uses = {}
        request.uses[use.action, use.resource, id(use.rule), use.about] = use

    def recording(self, request: Request, caller: Caller) -> Caller:
        """Return a caller whose actions on things of other principals are recorded."""
        if not caller.may_end_any or self._audit is None:
            return caller
        return replace(caller, on_anothers=partial(self._acts_on, request))

    def _acts_on(self, request: Request, what: str) -> None:
        self.used(request, Use(Action.TRANSACT_ANY, what))

    async def report_uses(self, request: Request) -> None:
        """Report the uses, now that there is an answer or its beginning."""
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
        """Report a refusal, and raise its error."""
        request.refusal = error
        self._report_refused(request, use, error)
        raise error

    def failed(self, request: Request, error: Exception) -> None:
        """Record the error that ends a request, and report it if it is a new refusal.

        The service refuses things that access control does not know: those of other principals,
        and its own topics.
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
            self._report_refused(request, use, error, error.problem.code)

    def _report_refused(
        self, request: Request, use: Use, error: TmsError, reason: str | None = None
    ) -> None:
        if self._audit is None:
            return
        record = self._record(request, use, Effect.DENY, error.status)
        if record.mechanism is None:  # anybody may call anonymously, any number of times
            self._audit.refuse(replace(record, reason=error.problem.code))
        else:
            self._audit.add(replace(record, reason=reason))

    def unknown(self, request: Request, error: TmsError) -> Never:
        """Report a failed authentication, and raise the error that says why."""
        request.refusal = error
        if self._audit is not None:
            header = request.authorization
            use = Use(AUTHENTICATE, shortened(request.path, _PATH_CHARS_MAX))
            record = self._record(request, use, Effect.DENY, error.status)
            reason = str(error.detail.get("reason", error.problem.code))
            tried = None if header is None else tried_by(header)
            self._audit.refuse(replace(record, reason=reason, tried=tried))
        raise error

    def _record(
        self, request: Request, use: Use, effect: Effect, status: int | None
    ) -> AuditRecord:
        admission, operation = request.admission, request.operation
        assert admission is not None, "access control has seen the request"
        session = admission.session
        # The answer to a refusal will have an id; of others only those that have one already.
        is_named = effect is Effect.DENY or request.has_request_id
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
            request_id=request.request_id if is_named else None,
        )


def _about(error: TmsError) -> str | None:
    """Return the owner or thing that a refusal of the service is about."""
    for name, noun in (("transaction_id", "transaction"), ("owner", "owner")):
        if name in error.detail:
            return f"{noun} {error.detail[name]}"
    return None
