"""A member that wants locks."""

from tms.coordination import CoordinationService
from tms.metadata.host import MetadataHost
from tms.metadata.local import LocalSession

PATH = "/locks/1"


class Member:
    """A session, with the locks and elections that use it."""

    def __init__(self, host: MetadataHost) -> None:
        self.store: LocalSession = host.open_session()
        self.service = CoordinationService(self.store)
