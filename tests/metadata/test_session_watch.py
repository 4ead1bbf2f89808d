"""The events of a session, their order, and when silence counts as a loss."""

from hypothesis import given
from hypothesis import strategies as st

from tms.metadata.interface import SessionEvent
from tms.metadata.session_watch import SessionWatch

LOST, BACK = SessionEvent.CONNECTION_LOST, SessionEvent.RECONNECTED
GONE, NEW_ONE = SessionEvent.SESSION_LOST, SessionEvent.SESSION_REESTABLISHED
TIMEOUT_MS = 6000
SILENT_MS = 5000


def test_a_connection_that_breaks_is_reported_once() -> None:
    watch = SessionWatch(TIMEOUT_MS, 0)

    assert watch.broken() == [LOST]
    assert watch.broken() == []
    assert not watch.is_connected
    assert watch.linked(100, 110) == [BACK]
    assert watch.is_connected


def test_a_session_counts_as_lost_after_five_sixths_of_its_timeout() -> None:
    watch = SessionWatch(TIMEOUT_MS, 0)
    watch.heard(1000, 1100)
    watch.broken()

    assert watch.look(1000 + SILENT_MS - 1) == []
    assert watch.look(1000 + SILENT_MS) == [GONE]
    assert watch.look(9000) == []
    assert watch.linked(9000, 9100) == [BACK, NEW_ONE]


def test_silence_counts_from_when_the_answered_request_was_sent() -> None:
    watch = SessionWatch(TIMEOUT_MS, 0)
    assert watch.heard(0, SILENT_MS - 1) == []

    assert watch.look(SILENT_MS) == [LOST, GONE]
    assert watch.heard(10, SILENT_MS + 20) == [], "an old answer proves nothing"
    assert watch.heard(SILENT_MS, SILENT_MS + 30) == [BACK, NEW_ONE]


def test_what_the_server_ends_is_lost_at_once() -> None:
    watch = SessionWatch(TIMEOUT_MS, 0)

    assert watch.expired() == [LOST, GONE]
    assert watch.expired() == []
    assert watch.heard(10, 20) == [], "there is no connection on which changes are told"
    assert watch.linked(10, 20) == [BACK, NEW_ONE]


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["heard", "linked", "broken", "expired", "look"]), st.integers(0, 3000)
    ),
    max_size=40,
)


@given(STEPS)
def test_events_come_in_their_order_whatever_happens(steps: list[tuple[str, int]]) -> None:
    watch = SessionWatch(TIMEOUT_MS, 0)
    now_ms, told = 0, []
    for what, passed_ms in steps:
        now_ms += passed_ms
        if what in ("heard", "linked"):
            told += getattr(watch, what)(now_ms - passed_ms // 2, now_ms)
        else:
            told += watch.look(now_ms) if what == "look" else getattr(watch, what)()

    allowed = {
        None: {LOST},
        LOST: {GONE, BACK},
        GONE: {BACK},
        BACK: {LOST, NEW_ONE},
        NEW_ONE: {LOST},
    }
    last = None
    was_lost = False
    for event in told:
        assert event in allowed[last]
        if last is BACK:
            assert (event is NEW_ONE) == was_lost
        was_lost = event is GONE or (was_lost and event is not NEW_ONE)
        last = event
    assert watch.is_connected == (last in (None, BACK, NEW_ONE))
