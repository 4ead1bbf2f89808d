"""A candidate in elections."""

from tests.coordination.member import Member
from tms.coordination import LeaderElection, LeaderState
from tms.metadata.host import MetadataHost

PATH = "/leader"


class Candidate(Member):
    """A candidate of the election, with the states that it was notified of."""

    def __init__(self, host: MetadataHost) -> None:
        super().__init__(host)
        self.told: list[LeaderState] = []
        self.election: LeaderElection = self.service.election(PATH, self.told.append)
