"""A signal ends a command wherever it interrupts the command."""

import asyncio
import signal
from collections.abc import Callable
from contextlib import suppress

import pytest

from tms.cli.endless import ending_in_order


def while_asyncio_wakes_its_loop(number: signal.Signals) -> None:
    """Raise a signal in `call_soon_threadsafe` as it writes to the loop and ignores `OSError`."""

    class Waking:
        def send(self, _: bytes) -> None:
            signal.raise_signal(number)

    loop = asyncio.new_event_loop()
    own = loop._csock  # type: ignore[attr-defined]
    loop._csock = Waking()  # type: ignore[attr-defined]
    try:
        loop.call_soon_threadsafe(int)
    finally:
        loop._csock = own  # type: ignore[attr-defined]
        loop.close()


def while_errors_are_ignored(number: signal.Signals) -> None:
    with suppress(Exception):
        signal.raise_signal(number)


@pytest.mark.parametrize("interrupted", [while_asyncio_wakes_its_loop, while_errors_are_ignored])
@pytest.mark.parametrize(
    ("number", "raised"), [(signal.SIGPIPE, BrokenPipeError), (signal.SIGTERM, SystemExit)]
)
def test_a_signal_is_not_ignored(
    interrupted: Callable[[signal.Signals], None],
    number: signal.Signals,
    raised: type[BaseException],
) -> None:
    with pytest.raises(raised), ending_in_order():
        interrupted(number)
