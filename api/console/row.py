"""A row of the console's tables: a page, or a form of one, and what the door asks for it."""

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
    """Below the console."""
    handler: Handler
    action: Action | None
    """None: everybody may, known or not."""
    _: KW_ONLY
    decided_by: DecidedBy = DecidedBy.PATH
    is_form: bool = False
    is_change: bool = True
    """Whether a form changes something, so that it needs its token and a console that may."""
    is_download: bool = False
    """Whether its answer may be large bytes, which are not compressed."""
