"""A row of the console's table: a page, or a form of one, and the action that the door checks."""

from dataclasses import KW_ONLY, dataclass

from api.console.visit import Handler
from api.http.door.guarded import DecidedBy
from tms.security.resources import Action


@dataclass(frozen=True, slots=True)
class Row:
    """A page, or a form."""

    name: str
    """The operation's name in metrics and in the audit; `console` is put before it."""
    path: str
    """The path below the console."""
    handler: Handler
    action: Action | None
    """The action that it needs; None if everybody may, signed in or not."""
    _: KW_ONLY
    decided_by: DecidedBy = DecidedBy.PATH
    is_form: bool = False
    is_change: bool = True
    """Whether a form changes something: it needs its token, and is refused if read-only."""
    is_download: bool = False
    """Whether its answer may be large, and is not compressed."""
