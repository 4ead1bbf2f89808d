"""Hostile schemas that harm the processes that check them.

This module imports little, so that the processes start fast.
"""

import os
import threading
from collections.abc import Sequence
from pathlib import Path

from tms.registry.checking import kept_parses
from tms.registry.checking.kept_parses import KeptParses
from tms.registry.questions.questions import NoSchema, Source


def hang(*_: object) -> None:
    threading.Event().wait()


def eat_memory(*_: object) -> list[NoSchema]:
    from tms.registry.checking.kinds import MEMORY_BYTES_MAX, _prepare_process  # noqa: PLC0415  heavy

    _prepare_process()
    try:
        bytearray(2 * MEMORY_BYTES_MAX)
    except MemoryError:
        return [NoSchema("too much")]
    return []


def die(*_: object) -> None:
    os._exit(1)


def parse_and_die(questions: Sequence[Source], folder: str | None) -> list[NoSchema]:
    """Return the texts that were parsed; the first process dies before it parses the last one."""
    kept_parses.PARSE_S_MIN = 0.0
    kept, parsed = KeptParses(), []
    kept.folder = folder

    def parse(text: str) -> str:
        marker = Path(str(folder), "died")
        if text == "last" and not marker.exists():
            marker.touch()
            os._exit(1)
        parsed.append(text)
        return text

    for source in questions:
        kept.parsed(source, lambda text=source.text: parse(text))  # type: ignore[misc]
    return [NoSchema(text) for text in parsed]
