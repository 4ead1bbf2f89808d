"""`tms copy`: all topics of one store into another. If it is stopped, the next run continues."""

import time
from collections.abc import Iterable, Iterator
from contextlib import closing
from typing import Annotated, Any

import typer

from tms.cli.columns import counted
from tms.cli.configured import ConfigOption, answering, settings_of
from tms.cli.failure import stop
from tms.cli.progress import drawing
from tms.cli.target import JsonOption
from tms.core.errors import StoreNotFound
from tms.core.text.credentials import without_credentials
from tms.core.text.store_url import HBASE, has_scheme, kind_of, written

EXAMPLES = """\b
Examples:
  tms copy leveldb:./tms-data hbase://gateway:9090/tms
  tms copy hbase://gateway:9090/tms leveldb:./copy

No server may have the source open, nor a target on local disk. A source on local disk keeps its
rows and its format; LevelDB recovers its log there. A target on local disk is created.

Exit codes: 0 all is copied and compared; 1 or 6 it is not, run it again; 2 wrong usage."""

SourceArgument = Annotated[
    str, typer.Argument(metavar="SOURCE", help="leveldb:DIR or hbase://HOST:PORT/PREFIX.")
]
TargetArgument = Annotated[
    str, typer.Argument(metavar="TARGET", help="Another store; `tms init` creates one on HBase.")
]


def copy(
    context: typer.Context,
    source: SourceArgument,
    target: TargetArgument,
    config: ConfigOption = None,
    as_json: JsonOption = False,  # noqa: FBT002  typer's way to say what a flag is
) -> None:
    """Copy topics with their messages, ids, subscriptions and transactions to another store.

    The settings of namespaces are copied from one folder to another; rules and tokens are not.
    """
    from tms.server.jobs import open_copy  # noqa: PLC0415  the whole server

    settings = settings_of({}, config)
    try:
        _check(source, target)
        copying = open_copy(source, target, settings)
    except StoreNotFound as error:
        stop(f"there is no store in {error.detail['folder']}")
    except ValueError as error:
        stop(str(error))
    try:
        facts = _copied(copying)
    finally:
        copying.close()
    answering(context, as_json=as_json).answer(_text(facts), facts)


def _check(source: str, target: str) -> None:
    """Raise ValueError if they are not two different stores."""
    for url in (source, target):
        kind = kind_of(url)
        if (kind is None or not kind.is_kept) and not has_scheme(url, HBASE):
            shown = without_credentials(url)
            raise ValueError(f"{shown!r} is not a store: give {written(durable=True)}")
    if source == target:
        raise ValueError("source and target are the same")


def _copied(copying: Any) -> dict[str, Any]:
    """Copy; return the facts to print."""
    began = time.monotonic()
    topics = copied_rows = copied_bytes = compared_rows = 0
    # Closed before the stores, which wait for open scans.
    with closing(copying.steps()) as steps:
        for step in _with_progress(steps, copying.topics_count):
            topics += step.topics
            copied_rows += step.copied_rows
            copied_bytes += step.copied_bytes
            compared_rows += step.compared_rows
    settings = copying.copy_settings()
    return {
        "topics": topics,
        "copied_rows": copied_rows,
        "copied_bytes": copied_bytes,
        "compared_rows": compared_rows,
        "target_transactions": copying.target_has,
        "invalid_pointers": len(copying.invalids),
        "namespaces": settings.namespaces,
        "other_namespaces": settings.other_namespaces,
        "left_rules": settings.rules,
        "left_tokens": settings.tokens,
        "seconds": round(time.monotonic() - began, 3),
    }


def _with_progress(steps: Iterable[Any], topics: int) -> Iterator[Any]:
    """Yield the steps; if standard error is a terminal, draw the progress."""
    copied = compared = 0
    text = "topics, {task.fields[copied]:,} rows copied, {task.fields[compared]:,} compared"
    with drawing("copying", text, topics, copied=0, compared=0) as draw:
        for step in steps:
            yield step
            copied += step.copied_rows
            compared += step.compared_rows
            draw(advance=step.topics, copied=copied, compared=compared)


def _text(facts: dict[str, Any]) -> str:
    copied, compared = facts["copied_rows"], facts["compared_rows"]
    lines = [
        f"The target has {counted(facts['topics'], 'topic')}, after {facts['seconds']:.1f} s.",
        f"Copied {counted(copied, 'row')}, {facts['copied_bytes']} bytes.",
        f"Compared {counted(compared, 'row')}: the same.",
        f"The target has {facts['target_transactions']} transactions.",
        f"Invalid write pointers, whose messages are rolled back: {facts['invalid_pointers']}.",
        f"The settings of {counted(facts['namespaces'], 'namespace')} are the same.",
    ]
    if facts["other_namespaces"]:
        names = ", ".join(facts["other_namespaces"])
        lines.append(f"Not copied: the settings of {names}. Set them by `tms namespace set`.")
    if facts["left_rules"] or facts["left_tokens"]:
        rules, tokens = counted(facts["left_rules"], "rule"), counted(facts["left_tokens"], "token")
        lines.append(f"Not copied: {rules} and {tokens}. Make them by `tms auth`.")
    return "\n".join(lines)
