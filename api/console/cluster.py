"""The servers of the cluster, and who leads what."""

from api.console.row import Row
from api.console.visit import Answer, ShownPage, Visit
from tms.security.resources import Action


async def cluster(visit: Visit) -> Answer:
    """Show the cluster."""
    found = visit.exchange.context.cluster
    return ShownPage("cluster.html", {"state": None if found is None else await found.state()})


ROWS = (Row("Cluster", "/cluster", cluster, Action.OPERATE),)
