"""A candidate in elections."""

from tests.coordination.member import Member
from tms.coordination import LeaderElection, LeaderState
from tms.metadata.host import MetadataHost

PATH = "/leader"


class Candidate(Member):
    """A member of the election, with the states it was told."""

    def __init__(self, host: MetadataHost) -> None:
        super().__init__(host)
        self.told: list[LeaderState] = []
        self.election: LeaderElection = self.service.election(PATH, self.told.append)
