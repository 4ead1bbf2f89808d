"""One line of the audit: ASCII, so that no name in it can end it, and without credentials."""

import json
from dataclasses import dataclass, fields
from typing import Final

from tms.core.text.credentials import shortened
from tms.security.credentials import Scheme
from tms.security.rules import Effect

TEXT_CHARS_MAX = 1024
_OF_SOME: Final = {"operation": None, "about": None, "reason": None, "tried": None, "count": 1}


@dataclass(frozen=True, slots=True)
class AuditRecord:
    """One thing that somebody did or could not do."""

    time_ms: int
    """In ms since 1970."""
    principal: str | None
    """None if it is not known."""
    mechanism: Scheme | None
    address: str
    via: str | None
    """The instance id of the server that passed it on; None if it came straight."""
    action: str
    """An `Action`, or `AUTHENTICATE`."""
    resource: str
    """As it is told."""
    effect: Effect
    rule: str | None
    """The id of the rule that decided; None if there was none."""
    status: int | None
    """The HTTP status of the answer; None if it is not known yet."""
    operation: str | None = None
    """The operation, by its name in the OpenAPI document; None if there is none."""
    about: str | None = None
    """The thing that it was done to or with, if the resource does not say it: a rule, a
    subscription."""
    reason: str | None = None
    """Why a stranger was refused, or the code of what the service itself refuses; else None."""
    tried: str | None = None
    """Whom a stranger claimed to be: a token's id, or a digest of a name (`tried_by`)."""
    count: int = 1
    """How many times it happened since it was told last; over 1, this is the last time."""

    def line(self) -> bytes:
        """Return it as one line of JSON, with its end. Long texts are cut.

        Fields that only some records have are left out of others.
        """
        told = {}
        for name in _NAMES:  # not by `asdict`, which copies each value deeply
            value = getattr(self, name)
            if name not in _OF_SOME or value != _OF_SOME[name]:
                told[name] = shortened(value, TEXT_CHARS_MAX) if isinstance(value, str) else value
        return f"{json.dumps(told, separators=(',', ':'))}\n".encode("ascii")


_NAMES: Final = tuple(each.name for each in fields(AuditRecord))
