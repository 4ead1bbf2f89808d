"""`tms poll`: reads messages, to the end or without end."""

import base64
import itertools
import sys
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from tms.cli.durations import duration
from tms.cli.endless import ending_in_order
from tms.cli.lines import json_of, text_of
from tms.cli.target import Target, TopicArgument, with_target
from tms.client import Start, Subscription
from tms.client.reading.start import ms_of
from tms.core.errors import InvalidRequest
from tms.core.services.messaging import STOPPED_S
from tms.core.services.records import Decoding, Record
from tms.core.values.message import ID_BYTES, Message, check_start_ms, parse_id
from tms.core.values.store_access import StoreAccess
from tms.core.values.topic import TopicId
from tms.core.values.transaction import Transaction
from tms.wire.cloud_events import encode_event, source_of
from tms.wire.transaction_codec import decode_transaction

EXAMPLES = """\b
Examples:
  tms poll orders
  tms poll orders --from 2026-08-01T12:00:00Z --limit 10
  tms poll orders --after 0000019f0c8e4a2100000000000000000000000000
  tms poll orders --follow --json
  tms poll orders --committed
  tms poll orders --filter 'key ^= "eu-" and header.type = "order"'
  tms poll orders --decode                     messages decoded by their schemas, as JSON
  tms poll orders --subscription billing       new messages of a subscription, then move it"""

FOLLOW_WAIT_S = 20.0
CONSUMED_MAX = 1000
"""How many messages are printed while following before the subscription is moved."""

LineOf = Callable[[Message | Record], str]
DECODING = Decoding(as_json=True, damaged="give")
_ID_CHARS = 2 * ID_BYTES
_TIMES = "such as 2026-08-01T12:00:00Z or 1785585600000"
_OTHERS = f", a message id of {_ID_CHARS} digits, or the word start"

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
    typer.Option(
        metavar="ID", help="Start after this message instead: the last one that you read."
    ),
]
Limit = Annotated[
    int | None,
    typer.Option(min=1, metavar="COUNT", help="The most messages; by default all."),
]
Follow = Annotated[
    bool,
    typer.Option("--follow", "-f", help="Continue with new messages until Ctrl-C."),
]
Wait = Annotated[
    float,
    duration("--wait", help_text="If there are no messages, how long to wait for some.", least_s=0),
]
Tx = Annotated[
    str | None,
    typer.Option(
        metavar="ID|BASE64|@FILE",
        help="Only messages that this transaction can see: the id of a transaction in progress, or "
        "TransactionCodec bytes.",
    ),
]
Committed = Annotated[
    bool,
    typer.Option(
        "--committed",
        help="Only committed messages, up to the first one whose transaction is in progress.",
    ),
]
Chosen = Annotated[
    str | None,
    typer.Option(
        "--filter",
        metavar="FILTER",
        help="Only messages whose key and headers match, such as "
        """'key = "a" or not header.type exists'.""",
    ),
]
Decode = Annotated[
    bool,
    typer.Option(
        "--decode",
        help="Decode messages by their schemas, and print JSON; for a damaged message, print the "
        "reason and the bytes.",
    ),
]
Events = Annotated[
    bool, typer.Option("--cloudevents", help="Print each message as a CloudEvent in JSON.")
]
Subscribed = Annotated[
    str | None,
    typer.Option(
        "--subscription",
        metavar="NAME",
        help="Start at the position of this subscription; once the messages are printed, it is "
        "moved after the last one.",
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
    chosen: Chosen = None,
    subscription: Subscribed = None,
    decode: Decode = False,
    cloudevents: Events = False,
) -> None:
    """Read messages, oldest first.

    Each line has the time in UTC, the id, the key and headers if any, and the payload.
    """
    has_start = after is not None or start != "start"
    if after is not None and start != "start":
        raise typer.BadParameter("give either --from or --after")
    if follow and (tx is not None or wait_s):
        raise typer.BadParameter("--follow cannot be used with --tx or --wait")
    if tx is not None and committed:
        raise typer.BadParameter("give either --tx or --committed")
    if subscription is not None and (has_start or tx is not None):
        raise typer.BadParameter("--subscription cannot be used with --from, --after or --tx")
    if cloudevents and decode:
        raise typer.BadParameter("give either --cloudevents or --decode")
    where: dict[str, Any] = {
        "start": parse_start(start),
        "after": None if after is None else parse_message_id(after, "--after"),
    }
    transaction = None if tx is None else parse_transaction(tx)
    access = StoreAccess.READ if subscription is None else StoreAccess.WRITE
    with target.connect(access) as client, ending_in_order() if follow else nullcontext():
        client.stops.after_s = STOPPED_S
        source = client.topic(topic)
        line_of: LineOf = json_of if target.as_json else text_of
        if cloudevents:
            line_of = partial(_event_of, source=source_of(TopicId(source.namespace, source.name)))
        if subscription is not None:
            consumer = source.subscription(subscription)
            wait_s = FOLLOW_WAIT_S if follow else wait_s
            how = {"committed": committed, "wait_s": wait_s, "filter": chosen}
            decoded = partial(source.decode, how=DECODING) if decode else None
            _consume(line_of, consumer, limit, decoded, follow=follow, **how)
            return
        where |= {"decode": DECODING if decode else False, "filter": chosen}
        found: Iterable[Message | Record]
        if follow:
            source.properties()  # to report a wrong name or address at once
            found = itertools.islice(source.follow(committed=committed, **where), limit)
        else:
            found = source.poll(
                limit=limit, tx=transaction, committed=committed, wait_s=wait_s, **where
            )
        _print(line_of, found, flush=follow)


def _event_of(message: Message | Record, source: str) -> str:
    assert isinstance(message, Message)
    return encode_event(message, source).decode()


def _print(line_of: LineOf, messages: Iterable[Message | Record], *, flush: bool) -> None:
    for message in messages:
        print(line_of(message), flush=flush)


def _consume(
    line_of: LineOf,
    consumer: Subscription,
    limit: int | None,
    decoded: Callable[[list[Message]], list[Record]] | None,
    *,
    follow: bool,
    **how: Any,
) -> None:
    """Print the messages after the position, then move it: unprinted ones will be read again."""
    remaining = limit
    while remaining != 0:
        asked = remaining
        if follow or decoded is not None:
            asked = CONSUMED_MAX if remaining is None else min(remaining, CONSUMED_MAX)
        last, count = _print_consumed(line_of, consumer.poll(asked, **how), decoded, flush=follow)
        to = consumer.passed or last
        if to is not None:
            sys.stdout.flush()
            consumer.advance(to)
        remaining = None if remaining is None else remaining - count
        if not follow and (decoded is None or not count):
            return


def _print_consumed(
    line_of: LineOf,
    messages: Iterable[Message],
    decoded: Callable[[list[Message]], list[Record]] | None,
    *,
    flush: bool,
) -> tuple[Message | None, int]:
    """Print messages; return the last one and their number."""
    last, count = None, 0
    if decoded is not None:
        consumed = list(messages)
        _print(line_of, decoded(consumed), flush=flush)
        return (consumed[-1] if consumed else None), len(consumed)
    for last in messages:
        _print(line_of, (last,), flush=flush)
        count += 1
    return last, count


def parse_message_id(text: str, option: str) -> bytes:
    """Parse the message id `text` of `option`. Raises a usage error."""
    try:
        return parse_id(text)
    except InvalidRequest as error:
        raise typer.BadParameter(str(error), param_hint=option) from None


def parse_start(text: str, option: str = "--from", others: str = _OTHERS) -> Start | None:
    """Parse the start of a poll; None is the oldest message. Raises a usage error."""
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
            f"{text!r} is not a valid time {_TIMES}{others}", param_hint=option
        ) from None
    return time if time.tzinfo else time.replace(tzinfo=UTC)


def parse_time_ms(text: str, option: str) -> int:
    """Parse a time to ms since 1970. Raises a usage error."""
    match parse_start(text, option, others=""):
        case int() as time_ms:
            return time_ms
        case datetime() as moment:
            return ms_of(moment)
    raise typer.BadParameter(f"{text!r} is not a valid time {_TIMES}", param_hint=option)


def parse_transaction(text: str) -> Transaction | int:
    """Parse a transaction: an id, a file as `@FILE`, or base64. Raises a usage error."""
    if text.isascii() and text.isdigit():
        return int(text)
    try:
        if text.startswith("@"):
            return decode_transaction(Path(text[1:]).read_bytes())
        return decode_transaction(base64.b64decode(text, validate=True))
    except OSError as error:
        reason = f"{text[1:]} cannot be read: {error.strerror}"
    except ValueError:
        reason = "not base64; write @FILE for a file"
    except InvalidRequest as error:
        reason = str(error)
    raise typer.BadParameter(reason, param_hint="--tx")
