"""Owners and sequences: a work is committed once, and by one transaction at a time."""

import pytest

from tests.transactions.living import Living
from tms.core.errors import (
    InvalidRequest,
    OwnerBusy,
    OwnerElsewhere,
    TransactionDuplicate,
    TransactionNotInProgress,
)
from tms.core.limits import Limits
from tms.core.transactions import IfOpen


class TestOwners:
    def test_a_sequence_is_committed_once(self, living: Living) -> None:
        committed = living.start(owner="o", sequence=3)
        living.commit(committed)

        for sequence in (0, 2, 3):
            for attempt in (living.start, living.at_once):
                with pytest.raises(TransactionDuplicate) as caught:
                    attempt(owner="o", sequence=sequence)
                assert caught.value.detail == {
                    "owner": "o",
                    "sequence": sequence,
                    "committed_sequence": 3,
                    "transaction_id": committed.transaction_id,
                }
        living.at_once("o", 4)
        living.start(owner="p", sequence=0)
        living.start(owner="o", sequence=9)

    def test_and_only_for_the_origin_that_committed_it_is_it_done(self, living: Living) -> None:
        committed = living.start(owner="o", sequence=3, origin="run 1")
        living.commit(committed)

        with pytest.raises(TransactionDuplicate):
            living.start(owner="o", sequence=3, origin="run 1")
        for origin in ("run 2", None):
            with pytest.raises(OwnerElsewhere) as caught:
                living.start(owner="o", sequence=2, origin=origin)
            assert caught.value.detail == {
                "owner": "o",
                "sequence": 2,
                "committed_sequence": 3,
                "transaction_id": committed.transaction_id,
                "origin": origin,
                "committed_origin": "run 1",
            }
        with pytest.raises(OwnerElsewhere):
            living.at_once("o", 3)
        living.commit(living.start(owner="o", sequence=4, origin="run 2"))
        with pytest.raises(OwnerElsewhere):
            living.start(owner="o", sequence=3, origin="run 1")

    def test_another_origin_does_not_join(self, living: Living) -> None:
        old = living.start(owner="o", sequence=1, origin="run 1")
        with pytest.raises(OwnerBusy):
            living.start(owner="o", sequence=1, origin="run 2", if_open=IfOpen.JOIN)
        joined = living.start(owner="o", sequence=1, origin="run 1", if_open=IfOpen.JOIN)
        assert joined == old

    @pytest.mark.parametrize(("owner", "origin"), [(None, "run"), ("o", ""), ("o", "x" * 256)])
    def test_origins_that_are_none(self, living: Living, owner: str | None, origin: str) -> None:
        with pytest.raises(InvalidRequest) as caught:
            living.start(owner=owner, origin=origin)
        assert caught.value.problem.code == "invalid_owner"

    @pytest.mark.parametrize("end", [Living.abort, Living.invalidate])
    def test_one_that_did_not_commit_can_be_started_again(self, living: Living, end: type) -> None:
        end(living, living.start(owner="o", sequence=1))
        living.commit(living.start(owner="o", sequence=1))

    def test_an_older_open_one_is_in_the_way(self, living: Living) -> None:
        open_one = living.start(owner="o", sequence=1)
        for attempt in (living.start, living.at_once):
            with pytest.raises(OwnerBusy) as caught:
                attempt(owner="o", sequence=2)
            assert caught.value.detail["transaction_id"] == open_one.transaction_id

    def test_or_is_fenced(self, living: Living) -> None:
        old = living.checkpoint(living.start(owner="o", sequence=1))
        new = living.start(owner="o", sequence=1, if_open=IfOpen.FENCE)

        assert new.invalids == (old.transaction_id, old.write_pointer)
        assert new.in_progress == ()
        with pytest.raises(TransactionNotInProgress):
            living.commit(old)
        living.commit(new)

    def test_or_is_joined(self, living: Living) -> None:
        old = living.start(owner="o", sequence=1)
        edits = list(living.edits)
        assert living.start(owner="o", sequence=1, if_open=IfOpen.JOIN) == old
        assert living.edits == edits

        with pytest.raises(OwnerBusy):
            living.start(owner="o", sequence=2, if_open=IfOpen.JOIN)

    @pytest.mark.parametrize("if_open", list(IfOpen))
    def test_where_none_is_open_a_new_one_is_started(self, living: Living, if_open: IfOpen) -> None:
        living.commit(living.start(owner="o"))
        living.start(owner="o", if_open=if_open)

    @pytest.mark.parametrize(("owner", "sequence"), [("", 1), ("o" * 256, 1), (None, 1), ("o", -1)])
    def test_owners_and_sequences_that_are_none(
        self, living: Living, owner: str | None, sequence: int
    ) -> None:
        for attempt in (living.start, living.at_once):
            with pytest.raises(InvalidRequest) as caught:
                attempt(owner=owner, sequence=sequence)
            assert caught.value.problem.code == "invalid_owner"

    def test_an_owner_that_does_nothing_is_forgotten(self) -> None:
        living = Living(Limits(transaction_owner_retention_s=10))
        living.at_once("idle", 5)
        living.at_once("busy", 5)
        living.now_ms += 1
        living.at_once("late", 5)
        living.start(owner="busy", sequence=6)
        living.do(living.state.forget_owners(living.now_ms + 9_999))
        assert list(living.state.owners.last_commits) == ["idle", "busy", "late"]
        living.do(living.state.forget_owners(living.now_ms + 10_000))

        assert list(living.state.owners.last_commits) == ["busy", "late"]
        assert living.state.forget_owners(living.now_ms + 10_000) == ()

    def test_the_oldest_beyond_the_bound_are_forgotten_save_those_with_one_open(self) -> None:
        living = Living(Limits(transaction_owners_max=2))
        for owner in ("a", "b"):
            living.at_once(owner, 1)
        living.start(owner="a")
        living.at_once("c", 1)
        assert set(living.state.owners.last_commits) == {"a", "c"}

        living.start(owner="c")
        living.at_once("d", 1)
        living.at_once("e", 1)
        assert set(living.state.owners.last_commits) == {"a", "c", "e"}, "over it: both are open"
