"""Names that are typed to confirm a change."""

from api.console.visit import Visit
from tms.core.errors import InvalidRequest


def check_confirmed(visit: Visit, name: str) -> None:
    """Raise `InvalidRequest` (invalid_body) unless the form has the name, typed."""
    if visit.form.get("typed", "").strip() != name:
        raise InvalidRequest("invalid_body", reason=f"type {name} to confirm: nothing was done")
