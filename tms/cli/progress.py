"""The progress of a long input, drawn on standard error if that is a terminal."""

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from tms.cli.batches import InputBatch
from tms.cli.standard_streams import terminal


def with_progress(batches: Iterable[InputBatch], total_bytes: int | None) -> Iterator[InputBatch]:
    """Yield the batches; one counts as done when the next is requested.

    `total_bytes` is the size of the input; None if it is unknown. Nothing is drawn if standard
    error is not a terminal, or if a person types the input.
    """
    if not sys.stderr.isatty() or (total_bytes is None and sys.stdin.isatty()):
        yield from batches
        return
    from rich.console import Console  # noqa: PLC0415  60 ms, for long input alone
    from rich.progress import (  # noqa: PLC0415
        BarColumn,
        DownloadColumn,
        Progress,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )

    columns = (BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
    console = Console(file=terminal())
    # Standard output is for rollback ranges: rich must not take it over.
    with Progress(*columns, console=console, transient=True, redirect_stdout=False) as progress:
        task = progress.add_task("publishing", total=total_bytes)
        for batch in batches:
            yield batch
            progress.advance(task, batch.input_bytes)


@contextmanager
def counting(doing: str) -> Iterator[Callable[[int], None]]:
    """Yield a function to call with the number of rows done, which draws their count."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console  # noqa: PLC0415  as above
    from rich.progress import Progress, SpinnerColumn, TextColumn  # noqa: PLC0415

    columns = (SpinnerColumn(), TextColumn("{task.description} {task.completed:,.0f} rows"))
    console = Console(file=terminal())
    with Progress(*columns, console=console, transient=True, redirect_stdout=False) as progress:
        task = progress.add_task(doing, total=None)
        yield lambda rows: progress.advance(task, rows)


@contextmanager
def drawing(
    doing: str, text: str, total: int | None, **fields: Any
) -> Iterator[Callable[..., None]]:
    """Yield a function like `rich`'s `Progress.update`, which draws the progress.

    `text` follows the count, and may refer to `fields`.
    """
    if not sys.stderr.isatty():
        yield lambda **_: None
        return
    from rich.console import Console  # noqa: PLC0415  as above
    from rich.progress import (  # noqa: PLC0415
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
    )

    columns = (BarColumn(), MofNCompleteColumn(), TextColumn(text), TimeElapsedColumn())
    with Progress(*columns, console=Console(file=terminal()), transient=True) as progress:
        yield partial(progress.update, progress.add_task(doing, total=total, **fields))
