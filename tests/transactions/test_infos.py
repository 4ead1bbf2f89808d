"""Queries of the state: infos, and the latest snapshot."""

from tests.transactions.living import LONG, Living
from tms.core.values.transaction import TransactionType


class TestLooking:
    def test_a_reader_without_a_transaction_sees_what_a_start_would(self, living: Living) -> None:
        living.invalidate(living.start())
        open_one = living.start()
        living.commit(living.start())
        latest, started = living.state.latest_snapshot(), living.start()

        assert latest.transaction_id == latest.write_pointer == 0
        assert (latest.read_pointer, latest.in_progress, latest.invalids) == (
            started.read_pointer,
            started.in_progress,
            started.invalids,
        )
        assert latest.first_short_in_progress == open_one.transaction_id

    def test_infos(self, living: Living) -> None:
        a = living.start(client="c", owner="o", sequence=1)
        b = living.checkpoint(living.start(LONG))
        living.can_commit(a, b"1")
        infos = living.state.infos_in_progress()

        assert [i.status for i in infos] == ["committing", "in_progress"]
        assert (infos[0].client, infos[0].owner, infos[0].sequence) == ("c", "o", 1)
        assert infos[1].write_pointers == (b.transaction_id, b.write_pointer)
        assert infos[1].type is LONG
        living.invalidate(a)
        living.invalidate(b)
        invalid = living.state.infos_invalid()
        assert [i.transaction_id for i in invalid] == [a.transaction_id, b.transaction_id]
        assert invalid[0].client == "c"
        assert invalid == [living.state.info(i.transaction_id) for i in invalid]
        assert living.state.infos_invalid(1) == invalid[:1]
        assert living.state.invalid_count == 3
        assert invalid[0].type is TransactionType.SHORT
