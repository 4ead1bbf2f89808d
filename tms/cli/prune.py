"""`tms prune`: one cleanup pass over a store on HBase, for a scheduler, while servers run."""

import signal
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from functools import partial
from typing import Annotated, Any

import typer

from tms.cli.columns import counted
from tms.cli.configured import ConfigOption, answering, on_hbase
from tms.cli.endless import terminate
from tms.cli.progress import drawing
from tms.cli.target import JsonOption
from tms.core.errors import Unavailable

EXAMPLES = """\b
Examples:
  tms prune --store hbase://gateway:9090/tms
  tms prune --store hbase://gateway:9090/tms --workers 16 --json

Exit codes: 0 all regions are done; 1 some are not, or another process cleans up; 2 wrong usage."""


StoreOption = Annotated[
    str | None,
    typer.Option(metavar="URL", help="hbase://HOST:PORT/PREFIX.  [env: TMS_STORE]"),
]
WorkersOption = Annotated[
    int, typer.Option(min=1, metavar="COUNT", help="How many regions to clean up at a time.")
]


def prune(
    context: typer.Context,
    store: StoreOption = None,
    workers: WorkersOption = 4,
    config: ConfigOption = None,
    as_json: JsonOption = False,  # noqa: FBT002  typer's way to say what a flag is
) -> None:
    """Delete rows that readers can no longer see from a store on HBase, region by region."""
    from tms.server.jobs import open_pruning  # noqa: PLC0415  the whole server

    otherwise = "is cleaned up by its server; start that with `tms cleanup run`."
    pruning = on_hbase(store, config, otherwise, partial(open_pruning, workers=workers))
    before_term = signal.signal(signal.SIGTERM, terminate)  # steps in progress are finished
    try:
        facts = _pruned(pruning)
    finally:
        signal.signal(signal.SIGTERM, before_term)
        pruning.close()
    answering(context, as_json=as_json).answer(_text(facts), facts)
    if facts["held_by"] is not None or facts["failure"] is not None:
        raise typer.Exit(1)


def _pruned(pruning: Any) -> dict[str, Any]:
    """Run the pass; return the facts to print."""
    began, failure = time.monotonic(), None
    scanned = inverted = dropped_bytes = 0
    dropped: Counter[str] = Counter()
    try:
        # Closed before the store: that ends the workers, and lets other programs clean up.
        with closing(pruning.steps()) as steps:
            for step in _with_progress(steps, lambda: pruning.progress):
                scanned += step.scanned
                inverted += step.inverted
                dropped[step.table] += step.dropped
                dropped_bytes += step.dropped_bytes
    except Unavailable as error:
        failure = str(error)
    regions, regions_all = pruning.progress
    return {
        "regions_done": regions,
        "regions": regions_all,
        "scanned_rows": scanned,
        "dropped_rows": {table: count for table, count in sorted(dropped.items()) if count},
        "dropped_bytes": dropped_bytes,
        "inverted_rows": inverted,
        "seconds": round(time.monotonic() - began, 3),
        "held_by": pruning.holder,
        "failure": failure,
    }


def _with_progress(
    steps: Iterable[Any], progress_of: Callable[[], tuple[int, int]]
) -> Iterator[Any]:
    """Yield the steps; if standard error is a terminal, draw how many regions are done."""
    rows = 0
    text = "regions, {task.fields[rows]} rows deleted"
    with drawing("pruning", text, None, rows=0) as draw:
        for step in steps:
            yield step
            rows += step.dropped
            done, total = progress_of()
            draw(completed=done, total=total, rows=rows)


def _text(facts: dict[str, Any]) -> str:
    held = f"another process cleans up ({facts['held_by']})."
    if facts["held_by"] is not None and not facts["regions"]:
        return f"Nothing was done: {held}"
    dropped = " and ".join(
        counted(count, f"{table} row") for table, count in facts["dropped_rows"].items()
    )
    regions = f"{facts['regions_done']} of {facts['regions']} regions"
    lines = [
        f"Done: {regions}, in {facts['seconds']:.1f} s.",
        f"Read {counted(facts['scanned_rows'], 'row')}.",
        f"Deleted {dropped or 'nothing'}, {counted(facts['dropped_bytes'], 'byte')}.",
        f"Inverted {facts['inverted_rows']} rows of invalid transactions.",
    ]
    if facts["held_by"] is not None:
        lines.append(f"In some shards nothing was done: {held}")
    if facts["failure"] is not None:
        lines.append(f"It could not be finished; run it again: {facts['failure']}")
    return "\n".join(lines)
