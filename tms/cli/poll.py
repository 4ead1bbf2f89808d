"""`tms poll`: read messages, to the end or for ever."""

import base64
import binascii
import itertools
import sys
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

from tms.cli.durations import duration
from tms.cli.target import Target, TopicArgument, with_target
from tms.client import Start, Subscription
from tms.core.errors import InvalidRequest
from tms.core.message import ID_BYTES, Message, check_start_ms, parse_id
from tms.core.transaction import Transaction
from tms.wire.json_values import json_of as json_bytes
from tms.wire.transaction_codec import decode_transaction

EXAMPLES = """\b
Examples:
  tms poll orders
  tms poll orders --from 2026-08-01T12:00:00Z --limit 10
  tms poll orders --after 0000019f0c8e4a2100000000000000000000000000
  tms poll orders --follow --json
  tms poll orders --committed
  tms poll orders --subscription billing       what is new to it, and then it is moved"""

FOLLOW_WAIT_S = 20.0
CONSUMED_MAX = 1000
"""How many messages are printed, while following, before the subscription is moved."""

_ID_CHARS = 2 * ID_BYTES

From = Annotated[
    str,
    typer.Option(
        "--from",
        metavar="TIME|ID|start",
        help="Where to start: a time (ISO 8601, UTC unless it says otherwise, or milliseconds, not "
        "seconds, since 1970), a message id, or the oldest message.",
    ),
]
After = Annotated[
    str | None,
    typer.Option(metavar="ID", help="Start behind this message instead: the last one you read."),
]
Limit = Annotated[
    int | None,
    typer.Option(min=1, metavar="COUNT", help="At most so many messages; all by default."),
]
Follow = Annotated[
    bool,
    typer.Option("--follow", "-f", help="Go on for ever with messages to come; Ctrl-C ends it."),
]
Wait = Annotated[
    float,
    duration("--wait", told="Where there are none, wait so long for some.", least_s=0),
]
Tx = Annotated[
    str | None,
    typer.Option(
        metavar="ID|BASE64|@FILE",
        help="Only what this transaction can see: the id of one in progress, or TransactionCodec "
        "bytes.",
    ),
]
Committed = Annotated[
    bool,
    typer.Option(
        "--committed", help="Only what is committed, up to the first that is in progress."
    ),
]
Subscribed = Annotated[
    str | None,
    typer.Option(
        "--subscription",
        metavar="NAME",
        help="From where this subscription stands; once printed, it is moved behind the last.",
    ),
]


@with_target
def poll(
    target: Target,
    topic: TopicArgument,
    *,
    start: From = "start",
    after: After = None,
    limit: Limit = None,
    follow: Follow = False,
    wait_s: Wait = 0.0,
    tx: Tx = None,
    committed: Committed = False,
    subscription: Subscribed = None,
) -> None:
    """Read messages, oldest first.

    A line has the time in UTC, the id, the key and headers if there are any, and the payload.
    """
    has_start = after is not None or start != "start"
    if after is not None and start != "start":
        raise typer.BadParameter("give either --from or --after")
    if follow and (tx is not None or wait_s):
        raise typer.BadParameter("--follow goes with neither --tx nor --wait")
    if tx is not None and committed:
        raise typer.BadParameter("give either --tx or --committed")
    if subscription is not None and (has_start or tx is not None):
        raise typer.BadParameter("--subscription goes with none of --from, --after and --tx")
    where: dict[str, Any] = {
        "start": parse_start(start),
        "after": None if after is None else parse_message_id(after, "--after"),
    }
    transaction = None if tx is None else parse_transaction(tx)
    with target.connect() as client:
        source = client.topic(topic)
        if subscription is not None:
            consumer = source.subscription(subscription)
            how = {"committed": committed, "wait_s": FOLLOW_WAIT_S if follow else wait_s}
            _consume(target, consumer, limit, follow=follow, **how)
            return
        messages: Iterable[Message]
        if follow:
            source.properties()  # a wrong name or address is told now, not waited for
            messages = itertools.islice(source.follow(committed=committed, **where), limit)
        else:
            messages = source.poll(
                limit=limit, tx=transaction, committed=committed, wait_s=wait_s, **where
            )
        _print(target, messages, flush=follow)


def _print(
    target: Target, messages: Iterable[Message], *, flush: bool
) -> tuple[Message | None, int]:
    """Print messages; return the last one, and how many there were."""
    last, count = None, 0
    for last in messages:
        print(json_of(last) if target.as_json else text_of(last), flush=flush)
        count += 1
    return last, count


def _consume(
    target: Target, consumer: Subscription, limit: int | None, *, follow: bool, **how: Any
) -> None:
    """Print what is behind the position, then move it: what was not printed comes again."""
    left = limit
    while left != 0:
        asked = left
        if follow:
            asked = CONSUMED_MAX if left is None else min(left, CONSUMED_MAX)
        last, count = _print(target, consumer.poll(asked, **how), flush=follow)
        if last is not None:
            sys.stdout.flush()
            consumer.advance(last)
        left = None if left is None else left - count
        if not follow:
            return


def text_of(message: Message) -> str:
    """Return the line for people. What a terminal would not print is escaped."""
    published = datetime.fromtimestamp(message.publish_timestamp / 1000, UTC)
    time = published.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    said = [time, message.id.hex()]
    said += [] if message.key is None else [f"key={_printable(message.key)}"]
    said += [
        f"{_printable(name.encode())}={_printable(value)}"
        for name, value in message.headers.items()
    ]
    said.append("(no payload)" if message.is_tombstone else _printable(message.payload))
    return "  ".join(said)


def _printable(raw: bytes) -> str:
    text = raw.decode(errors="backslashreplace")
    if text.isprintable():
        return text
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode() for char in text
    )


def json_of(message: Message) -> str:
    """Return the line for programs."""
    line: dict[str, object] = {"id": message.id.hex(), "timestamp": message.publish_timestamp}
    if message.key is not None:
        line |= _told("key", message.key)
    if message.headers:
        line["headers"] = {
            name: json_bytes(value, base64_only=False) for name, value in message.headers.items()
        }
    line |= {"payload": None} if message.is_tombstone else _told("payload", message.payload)
    return msgspec.json.encode(line).decode()


def _told(name: str, raw: bytes) -> dict[str, str]:
    try:
        return {name: raw.decode()}
    except UnicodeDecodeError:
        return {f"{name}_base64": base64.b64encode(raw).decode()}


def parse_message_id(text: str, option: str) -> bytes:
    """Return the id that `text`, given as `option`, says. Raises a usage error."""
    try:
        return parse_id(text)
    except InvalidRequest as error:
        raise typer.BadParameter(str(error), param_hint=option) from None


def parse_start(text: str, option: str = "--from") -> Start | None:
    """Return the start that `text` says, None for the oldest message. Raises a usage error."""
    if text == "start":
        return None
    if len(text) == _ID_CHARS:
        return parse_message_id(text, option)
    if text.isascii() and text.isdigit():
        try:
            return check_start_ms(int(text))
        except InvalidRequest as error:
            raise typer.BadParameter(str(error), param_hint=option) from None
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        raise typer.BadParameter(
            f"{text!r} is no time such as 2026-08-01T12:00:00Z or 1785585600000, "
            f"no message id of {_ID_CHARS} digits, and not the word start",
            param_hint=option,
        ) from None
    return time if time.tzinfo else time.replace(tzinfo=UTC)


def parse_transaction(text: str) -> Transaction | int:
    """Return the transaction: an id, in the file `@FILE`, or in base64. Raises a usage error."""
    if text.isascii() and text.isdigit():
        return int(text)
    try:
        if text.startswith("@"):
            return decode_transaction(Path(text[1:]).read_bytes())
        return decode_transaction(base64.b64decode(text, validate=True))
    except OSError as error:
        reason = f"{text[1:]} cannot be read: {error.strerror}"
    except binascii.Error:
        reason = "not base64; a file is given as @FILE"
    except InvalidRequest as error:
        reason = str(error)
    raise typer.BadParameter(reason, param_hint="--tx")
