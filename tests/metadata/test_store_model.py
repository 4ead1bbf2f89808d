"""Several sessions of one store against a dict: any calls in any order, with sessions that end."""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import rule

from tests.metadata.rows import FailingRows
from tests.metadata.store_machine import PATHS, Model, StoreMachine
from tests.scale import scaled
from tms.core.errors import TmsError
from tms.metadata.host import open_host
from tms.metadata.journal import MetadataJournal


class JournalledMachine(StoreMachine):
    """The same model on journalled rows, which are read again now and then."""

    async def begin(self) -> None:
        self.rows = FailingRows()
        self.host = await open_host(MetadataJournal(self.rows))

    @rule(path=PATHS, how=st.sampled_from(["before", "after"]))
    def fail(self, path: str, how: str) -> None:
        refusal = self.put_refusal(path, None, ephemeral=False)
        if refusal is not None:
            return
        self.rows.fail_next = how
        with pytest.raises(TmsError):
            self.runner.run(self.sessions[0].put(path, b"?"))
        if how == "after":
            old = self.model.get(path)
            version = 0 if old is None else old.version + 1
            self.model[path] = Model(b"?", version, None if old is None else old.owner)
        # The next change of anything settles the outcome.
        self.runner.run(self.sessions[0].put("/settle", b""))
        self.runner.run(self.sessions[0].delete("/settle"))


TestStoreMachine = StoreMachine.TestCase
TestStoreMachine.settings = settings(max_examples=scaled(40), stateful_step_count=25)
TestJournalledMachine = JournalledMachine.TestCase
TestJournalledMachine.settings = settings(max_examples=scaled(15), stateful_step_count=15)
