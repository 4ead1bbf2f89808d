"""Owners and sequences: a piece of work is committed once, and by one transaction at a time."""

import pytest

from tests.transactions.living import Living
from tms.core.errors import (
    InvalidRequest,
    NotPermitted,
    OwnerBusy,
    OwnerElsewhere,
    OwnerNotFound,
    TooLarge,
    TransactionDuplicate,
    TransactionNotInProgress,
)
from tms.core.limits import Limits
from tms.core.services.transactions import IfOpen
from tms.core.values.caller import Caller
from tms.transactions.edits import EditKind

ANN, BOB = Caller("ann"), Caller("bob")


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
    def test_if_none_is_open_a_new_one_is_started(self, living: Living, if_open: IfOpen) -> None:
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

    def test_none_is_forgotten_for_the_sake_of_another(self) -> None:
        living = Living(Limits(transaction_owners_max=20))
        living.at_once("victim", 7, caller=BOB)
        for number in range(17):
            living.at_once(f"a{number}", 1, caller=ANN)
        for attempt in (living.start, living.at_once):
            with pytest.raises(TooLarge) as caught:
                attempt(owner="one more", sequence=1, caller=ANN)
            assert (caught.value.problem.code, caught.value.status) == ("too_many_owners", 429)
            assert caught.value.detail == {
                "owners": 18,
                "owners_of_principal": 17,
                "transaction_owners_max": 20,
            }
        with pytest.raises(TransactionDuplicate):
            living.at_once("victim", 7, caller=BOB)
        living.at_once("a0", 2, caller=ANN)
        living.start(owner="without a number", caller=ANN)
        living.at_once("victim 2", 1, caller=BOB)
        living.at_once("root's", 1)
        with pytest.raises(TooLarge):
            living.at_once("root's other", 1)

    def test_a_work_that_has_begun_has_its_place(self) -> None:
        living = Living(Limits(transaction_owners_max=2))
        first = living.start(owner="a", sequence=1)
        second = living.start(owner="b", sequence=1)
        with pytest.raises(TooLarge):
            living.at_once("c", 1)
        living.abort(first)
        living.at_once("c", 1)
        living.commit(second)
        assert set(living.state.owners.last_commits) == {"b", "c"}

    def test_who_may_have_all_takes_the_reserve_too(self) -> None:
        living = Living(Limits(transaction_owners_max=10))
        for number in range(10):
            living.at_once(f"{number}", 1, caller=Caller("root", has_all=True))
        with pytest.raises(TooLarge):
            living.at_once("more", 1, caller=Caller("root", has_all=True))

    def test_it_is_reported_from_four_fifths_on(self) -> None:
        living = Living(Limits(transaction_owners_max=10))
        for number in range(7):
            living.at_once(f"{number}", 1)
        assert living.state.owners.warnings() == []
        living.start(owner="7", sequence=1)
        [told] = living.state.owners.warnings()
        assert told.startswith("remembered owners of transactions: 8 of 10;")

    def test_one_is_forgotten_when_that_is_asked(self, living: Living) -> None:
        living.at_once("o", 5, caller=ANN)
        with pytest.raises(NotPermitted):
            living.state.forget_owner("o", living.now_ms, BOB)
        with pytest.raises(OwnerNotFound):
            living.state.forget_owner("p", living.now_ms, ANN)
        open_one = living.start(owner="o", sequence=6, caller=ANN)
        with pytest.raises(OwnerBusy):
            living.state.forget_owner("o", living.now_ms, ANN)
        living.abort(open_one)
        living.do(living.state.forget_owner("o", living.now_ms, ANN))
        assert living.state.infos_of_owners(living.now_ms, 5) == []
        living.at_once("o", 1, caller=BOB)
        [told] = living.state.infos_of_owners(living.now_ms, 5, "bob")
        assert (told.owner, told.sequence, told.principal) == ("o", 1, "bob")
        assert living.state.infos_of_owners(living.now_ms, 5, "ann") == []

    def test_versions_that_look_at_times_alone_forget_the_same(self, living: Living) -> None:
        for owner in "abc":
            living.at_once(owner, 5, caller=ANN)
            living.now_ms += 1
        commits = {owner: last.time_ms for owner, last in living.state.owners.last_commits.items()}
        edits = living.state.forget_owner("b", living.now_ms, ANN)
        for edit in edits:
            if edit.kind is EditKind.COMMITTED:
                commits[edit.owner or ""] = edit.time_ms
            else:
                before_ms = edit.truncate_before_ms
                commits = {owner: at for owner, at in commits.items() if at >= before_ms}
        living.do(edits)
        assert [edit.kind for edit in edits] == [EditKind.COMMITTED, EditKind.OWNERS_FORGOTTEN]
        assert [*commits] == [*living.state.owners.last_commits] == ["a", "c"]
