"""Numbers and ids for tests of keys and bodies."""

from hypothesis import strategies as st

from tms.core.values.message import Message, MessageId

TIMESTAMPS = st.integers(0, 2**63 - 1)


NUMBERS = st.integers(0, 65_535)


IDS = st.builds(MessageId, TIMESTAMPS, NUMBERS, TIMESTAMPS, NUMBERS)


def plain_messages(
    payloads: st.SearchStrategy[bytes], ids: st.SearchStrategy[MessageId] = IDS
) -> st.SearchStrategy[Message]:
    """Return messages with nothing but payloads, as from a poll."""
    parts = st.tuples(payloads, ids)
    return parts.map(lambda given: Message(given[0], id=given[1].encode()))
