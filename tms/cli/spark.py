"""`tms spark`: jobs on topics with Spark (`tms.spark.jobs`), in this process or on a cluster.

    tms spark archive FOLDER orders payments

On a cluster, `spark-submit` runs the same (`tms.cli.submitted`), or `--master` names it.
"""

import sys
from collections.abc import Mapping
from pathlib import Path
from pkgutil import resolve_name
from typing import Annotated, Any

import typer

from tms.cli.columns import aligned, counted
from tms.cli.failure import ExitCode, stop
from tms.cli.target import Target, with_target
from tms.core.runtime import extras

app = typer.Typer(
    help="Archive, replay, transform, count and prune topics with Spark.", no_args_is_help=True
)

Master = Annotated[
    str | None,
    typer.Option(
        metavar="URL",
        help="Spark's master; by default this machine, or the master of spark-submit.",
    ),
]
Folder = Annotated[str, typer.Argument(metavar="FOLDER", help="The archive: a path or URL.")]
Topics = Annotated[
    list[str] | None, typer.Argument(metavar="TOPIC", help="The topics.", show_default=False)
]
Pattern = Annotated[
    str | None,
    typer.Option(
        metavar="REGEX", help="Instead of names: a pattern that matches whole names of topics."
    ),
]
Start = Annotated[
    str | None,
    typer.Option(metavar="TIME", help="The publish time to begin at: ISO 8601 or milliseconds."),
]
End = Annotated[
    str | None, typer.Option(metavar="TIME", help="The publish time before which to end.")
]
Schema = Annotated[
    str | None,
    typer.Option(
        metavar="latest|ID",
        help="Decode payloads to columns, by the latest version of the subject or by an id.",
    ),
]
Message = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="With --schema: the message of a Protobuf file, by its full name; by default the "
        "first one.",
    ),
]
Rows = Annotated[
    int | None, typer.Option(min=1, metavar="COUNT", help="The most messages of one batch.")
]


@app.command()
@with_target
def archive(
    target: Target,
    folder: Folder,
    topics: Topics = None,
    *,
    pattern: Pattern = None,
    start: Start = None,
    schema: Schema = None,
    message: Message = None,
    errors: Annotated[
        str | None,
        typer.Option(metavar="TOPIC", help="The folder for messages that --schema cannot decode."),
    ] = None,
    rows_per_batch: Rows = None,
    master: Master = None,
) -> None:
    """Add the messages since the last run to an archive in Parquet, by topic and date."""
    for name, value in (("--errors", errors), ("--message", message)):
        if value is not None and schema is None:
            raise typer.BadParameter("it needs --schema", param_hint=name)
    spark = _session("archive", master, target)
    from tms.spark.jobs.archive import ROWS_PER_BATCH, archive  # noqa: PLC0415  needs Spark

    more = _given(startingTimestamp=start, schema=schema, message=message)
    source = {**_source(target, topics, pattern), **more}
    done = archive(
        spark,
        source,
        folder,
        rows_per_batch=rows_per_batch or ROWS_PER_BATCH,
        errors=errors,
        on_batch=_tell,
    )
    facts = {"messages": done.messages, "payload_bytes": done.payload_bytes}
    text = f"{done.messages} messages, {done.payload_bytes} bytes"
    if schema is not None:
        facts = {"messages": done.messages, "errors": done.errors}
        text = f"{done.messages} messages and {done.errors} errors"
    target.answer(
        f"Archived {text}, in {done.batches} batches.", {**facts, "batches": done.batches}
    )


@app.command()
@with_target
def replay(
    target: Target,
    folder: Folder,
    topics: Topics = None,
    *,
    to: Annotated[
        str | None,
        typer.Option(
            metavar="TOPIC", help="The topic to publish to; by default each message's own topic."
        ),
    ] = None,
    start: Start = None,
    end: End = None,
    envelope: Annotated[
        bool, typer.Option("--envelope", help="Publish JSON objects that contain the old ids.")
    ] = False,
    name: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="The name of this replay, which is done only once."),
    ] = None,
    bad: Annotated[
        str | None, typer.Option(metavar="FOLDER", help="The folder for rows without payload.")
    ] = None,
    master: Master = None,
) -> None:
    """Publish an archive again: in order, and only once even if it is run several times."""
    spark = _session("replay", master, target)
    from tms.spark.jobs.replay import Selection, replay  # noqa: PLC0415  needs Spark

    done = replay(
        spark,
        folder,
        {**_server(target), **_given(topic=to)},
        Selection(tuple(topics or ()), start, end),
        envelope=envelope,
        name=name,
        bad=bad,
    )
    text = (
        f"This replay was done before, as {done.name}."
        if done.is_duplicate
        else f"Replayed {counted(done.messages, 'message')} as {done.name}: "
        f"{counted(done.payload_bytes, 'byte')}, without {counted(done.bad, 'bad row')}."
    )
    target.answer(
        text,
        {
            "messages": done.messages,
            "payload_bytes": done.payload_bytes,
            "bad": done.bad,
            "name": done.name,
            "duplicate": done.is_duplicate,
        },
    )


@app.command()
@with_target
def transform(
    target: Target,
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="The topic to read.")],
    to: Annotated[str, typer.Argument(metavar="TO", help="The topic to write.")],
    *,
    checkpoint: Annotated[
        str, typer.Option(metavar="FOLDER", help="The folder in which the job stores its progress.")
    ],
    errors: Annotated[
        str,
        typer.Option(metavar="TOPIC", help="The topic for messages that cannot be transformed."),
    ],
    sql: Annotated[
        str | None,
        typer.Option(
            metavar="QUERY",
            help="Selects `payload`, and `key` and `headers` if messages have them, from the view "
            "`messages`: topic, message_id, timestamp, seq, payload, key, headers, and text, the "
            "payload as a string.",
        ),
    ] = None,
    function: Annotated[
        str | None,
        typer.Option(metavar="MODULE:NAME", help="A Python function of a payload, instead of SQL."),
    ] = None,
    rows_per_batch: Rows = None,
    forever: Annotated[
        bool, typer.Option("--forever", help="Continue with new messages until interrupted.")
    ] = False,
    master: Master = None,
) -> None:
    """Transform the messages since the last run into another topic, exactly once."""
    if (sql is None) == (function is None):
        raise typer.BadParameter("give one of them", param_hint="--sql or --function")
    how: Any = sql if sql is not None else _function(function or "")
    spark = _session("transform", master, target)
    from tms.spark.jobs.transform import Destinations, transform  # noqa: PLC0415  needs Spark

    limit = None if rows_per_batch is None else str(rows_per_batch)
    done = transform(
        spark,
        {**_source(target, [topic], None), **_given(maxOffsetsPerTrigger=limit)},
        _server(target),
        how,
        Destinations(to, errors),
        checkpoint=checkpoint,
        until_stopped=forever,
        on_batch=_tell,
    )
    target.answer(
        f"Published {done.messages} messages and {done.errors} errors, in {done.batches} batches.",
        {"messages": done.messages, "errors": done.errors, "batches": done.batches},
    )


@app.command()
@with_target
def stats(
    target: Target,
    topics: Topics = None,
    *,
    pattern: Pattern = None,
    start: Start = None,
    end: End = None,
    master: Master = None,
) -> None:
    """Count per topic and hour: messages, bytes, and how many were rolled back."""
    spark = _session("stats", master, target)
    from tms.spark.jobs.stats import stats  # noqa: PLC0415  needs Spark

    times = _given(startingTimestamp=start, endingTimestamp=end)
    counted = [
        row.asDict()
        for row in stats(spark, {**_source(target, topics, pattern), **times}).collect()
    ]
    facts = [{**row, "hour": row["hour"].isoformat()} for row in counted]
    heads = ("TOPIC", "HOUR", "MESSAGES", "BYTES", "ROLLED BACK", "SHARE")
    rows = [
        (
            row["topic"],
            f"{row['hour']:%Y-%m-%d %H:%M}",
            str(row["messages"]),
            str(row["payload_bytes"]),
            str(row["rolled_back"]),
            f"{row['rolled_back_share']:.1%}",
        )
        for row in counted
    ]
    target.answer(aligned(heads, rows), facts)


@app.command()
@with_target
def prune(
    target: Target,
    store: Annotated[
        str, typer.Option(envvar="TMS_STORE", metavar="URL", help="hbase://HOST:PORT/PREFIX.")
    ],
    *,
    master: Master = None,
) -> None:
    """Delete the rows of expired messages and of deleted topics from a store on HBase."""
    spark = _session("prune", master, None)
    from tms.spark.jobs.prune import prune  # noqa: PLC0415  needs Spark

    try:
        done = prune(spark, store, lambda count: print(f"{count} regions", file=sys.stderr))
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--store") from None
    by_reason = "".join(f", {rows} by {reason}" for reason, rows in done.by_reason.items())
    target.answer(
        f"Deleted {done.rows} rows{by_reason}, from {done.regions} regions.",
        {
            "regions": done.regions,
            "rows": done.rows,
            "row_bytes": done.row_bytes,
            "by_reason": done.by_reason,
        },
    )


def _session(name: str, master: str | None, target: Target | None) -> Any:
    """Return a session with `format("tms")`. Raises `ModuleNotFoundError` without PySpark."""
    try:
        from tms.spark.prerequisites import CannotRun  # noqa: PLC0415
        from tms.spark.session import open_session  # noqa: PLC0415  an extra
    except ModuleNotFoundError as error:
        raise extras.missing("`tms spark` needs PySpark", error, "spark") from error
    connection = {} if target is None else _server(target)
    try:
        return open_session(f"tms spark {name}", master, **connection)
    except CannotRun as error:
        stop(str(error), exit_code=ExitCode.FAILED)
    except ValueError as error:  # for files that cannot be used
        raise typer.BadParameter(str(error)) from None


def _server(target: Target) -> dict[str, str]:
    files = _given(
        **{
            option: None if file is None else str(file.absolute())
            for option, file in (("tms.tokenFile", target.token_file), ("tms.ca", target.ca))
        }
    )
    return {"url": target.url, "namespace": target.namespace, **files}


def _source(target: Target, topics: list[str] | None, pattern: str | None) -> dict[str, str]:
    return {
        **_server(target),
        **_given(subscribe=",".join(topics) if topics else None, subscribePattern=pattern),
    }


def _given(**options: str | None) -> dict[str, str]:
    return {name: value for name, value in options.items() if value is not None}


def _function(name: str) -> Any:
    """Import the function `MODULE:NAME`, also from the working folder."""
    sys.path.insert(0, str(Path.cwd()))
    try:
        return resolve_name(name)
    except (ImportError, AttributeError, ValueError) as error:
        raise typer.BadParameter(str(error), param_hint="--function") from None


def _tell(number: int, report: Mapping[str, Any]) -> None:
    counts = ", ".join(f"{count} {name.replace('_', ' ')}" for name, count in report.items())
    print(f"batch {number}: {counts}", file=sys.stderr)
