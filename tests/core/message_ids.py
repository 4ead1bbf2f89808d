"""Numbers and ids for tests of keys and bodies."""

from hypothesis import strategies as st

from tms.core.message import (
    MessageId,
)

TIMESTAMPS = st.integers(0, 2**63 - 1)


NUMBERS = st.integers(0, 65_535)


IDS = st.builds(MessageId, TIMESTAMPS, NUMBERS, TIMESTAMPS, NUMBERS)
