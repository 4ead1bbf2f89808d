"""The first page: how much goes through, who leads, and whatever is wrong now."""

from api.console.row import Row
from api.console.visit import Answer, ShownPage, Visit
from api.http.guarded import DecidedBy
from tms.security.resources import Action


async def overview(visit: Visit) -> Answer:
    """Show the first page."""
    warnings = visit.services.warnings()
    return ShownPage("overview.html", {"warnings": warnings})


ROWS = (
    Row(
        name="Overview",
        path="",
        handler=overview,
        action=Action.DESCRIBE,
        decided_by=DecidedBy.ANSWER,
    ),
)
