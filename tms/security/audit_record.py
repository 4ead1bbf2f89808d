"""One audit line: ASCII, so that no name in it can end it, and without credentials."""

import json
from dataclasses import dataclass, fields
from typing import Final

from tms.core.text.credentials import shortened
from tms.security.credentials import Scheme
from tms.security.rules import Effect

TEXT_CHARS_MAX = 1024
_OF_SOME: Final = {
    "operation": None,
    "about": None,
    "reason": None,
    "tried": None,
    "count": 1,
    "request_id": None,
}


@dataclass(frozen=True, slots=True)
class AuditRecord:
    """One action, done or refused."""

    time_ms: int
    """In ms since 1970."""
    principal: str | None
    """None if unknown."""
    mechanism: Scheme | None
    address: str
    via: str | None
    """The instance id of the server that forwarded it; None if it came directly."""
    action: str
    """An `Action`, or `AUTHENTICATE`."""
    resource: str
    """In its printed form."""
    effect: Effect
    rule: str | None
    """The id of the rule that decided; None without one."""
    status: int | None
    """The HTTP status of the answer; None if it is not known yet."""
    operation: str | None = None
    """The operation, by its name in the OpenAPI document; None without one."""
    about: str | None = None
    """The object of the action, if it is not the resource itself: a rule, a subscription."""
    reason: str | None = None
    """Why a stranger was refused, or the code of the service's own refusal; else None."""
    tried: str | None = None
    """The principal that a stranger claimed: a token's id, or a digest of a name (`tried_by`)."""
    count: int = 1
    """How often it happened since the last record; if over 1, this is the last occurrence."""
    request_id: str | None = None
    """The id of the request, which its answer has if it is an error."""

    def line(self) -> bytes:
        """Return it as one line of JSON, with its end. Long texts are cut.

        Optional fields are left out if unset.
        """
        fields = {}
        for name in _NAMES:  # `asdict` would copy each value deeply.
            value = getattr(self, name)
            if name not in _OF_SOME or value != _OF_SOME[name]:
                fields[name] = shortened(value, TEXT_CHARS_MAX) if isinstance(value, str) else value
        return f"{json.dumps(fields, separators=(',', ':'))}\n".encode("ascii")


_NAMES: Final = tuple(field.name for field in fields(AuditRecord))
