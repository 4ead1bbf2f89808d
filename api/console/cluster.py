"""The servers of the cluster, and which shards they lead."""

from api.console.row import Row
from api.console.visit import Answer, ShownPage, Visit
from tms.security.resources import Action


async def cluster(visit: Visit) -> Answer:
    """Show the cluster."""
    cluster = visit.exchange.context.cluster
    return ShownPage("cluster.html", {"state": None if cluster is None else await cluster.state()})


ROWS = (Row("Cluster", "/cluster", cluster, Action.OPERATE),)
