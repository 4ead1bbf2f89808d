"""`tms publish-all`: messages for several topics, all or none of them."""

from pathlib import Path
from typing import Annotated

import msgspec
import typer

from tms.cli.batches import read_whole
from tms.cli.columns import counted
from tms.cli.target import Target, with_target
from tms.wire.json_values import strictly_decoded

EXAMPLES = """\b
Example:
  tms publish-all --owner import --sequence 7 - <<END
  {"topic": "orders", "message": "order 1"}
  {"topic": "audit", "message": "order 1 was taken"}
  {"topic": "pictures", "message": {"base64": "/wA="}}
  END"""

FileArgument = Annotated[
    Path, typer.Argument(metavar="FILE", help="A JSON object a line; - is standard input.")
]
Owner = Annotated[
    str | None,
    typer.Option(
        metavar="NAME", help="The owner of the work: with --sequence, it is done only once."
    ),
]
Sequence = Annotated[
    int | None,
    typer.Option(
        min=0, metavar="NUMBER", help="The number of this work; the numbers of an owner ascend."
    ),
]


class _Bytes(msgspec.Struct, forbid_unknown_fields=True):
    base64: bytes


class _Line(msgspec.Struct, forbid_unknown_fields=True):
    topic: str
    message: str | _Bytes


_decoder = msgspec.json.Decoder(_Line)


def parse_lines(lines: list[bytes]) -> dict[str, list[bytes]]:
    """Return the messages by topic, in order; empty lines are ignored. Raises a usage error."""
    by_topic: dict[str, list[bytes]] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            parsed: _Line = strictly_decoded(_decoder, line)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise typer.BadParameter(f"line {number}: {error}", param_hint="FILE") from None
        said = parsed.message
        message = said.encode() if isinstance(said, str) else said.base64
        by_topic.setdefault(parsed.topic, []).append(message)
    if not by_topic:
        raise typer.BadParameter("there are no messages", param_hint="FILE")
    return by_topic


@with_target
def publish_all(
    target: Target, file: FileArgument, *, owner: Owner = None, sequence: Sequence = None
) -> None:
    """Publish to several topics in one transaction: all messages or none.

    With --owner and --sequence you may repeat it if its outcome is unknown: it is done only once.
    """
    by_topic = parse_lines(read_whole(file).split(b"\n"))
    count = sum(map(len, by_topic.values()))
    with target.connect() as client:
        published = client.publish_all(by_topic, owner=owner, sequence=sequence)
    said = "published before" if published.is_duplicate else "published"
    target.answer(
        f"{counted(count, 'message')} {said}, in transaction {published.write_pointer}.",
        {
            "messages": count,
            "transaction_id": str(published.write_pointer),
            "duplicate": published.is_duplicate,
        },
    )
