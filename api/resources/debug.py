"""The server's tables over REST, for operators: rows, sizes, checks, explained messages.

A table is read in parts: an answer's `next` is the next request's `after`.
"""

import re
from collections.abc import Mapping
from dataclasses import replace
from functools import partial

import msgspec

from api.http.exchange import JSON_TYPE, OK, Exchange
from api.http.operation import Json, Operation
from api.http.query_parameters import choice_of, flag_of, invalid, limit_of, time_of, values_of
from api.openapi.parts import (
    TIMESTAMP,
    json_content,
    parameter,
    query_choice,
    query_flag,
    query_text,
)
from api.openapi.structs import answer_of
from api.resources.of_shard import SHARD_PARAMETER, services_of
from api.resources.superusers import is_superuser
from tms.core.errors import InvalidRequest
from tms.core.limits import NAME_CHARS_MAX
from tms.core.values.inspection import (
    CHECKED,
    ROWS_MAX,
    TABLES,
    Facts,
    PartwiseInspection,
    Problems,
    Rows,
    Size,
)
from tms.core.values.message import parse_id
from tms.core.values.topic import TopicId
from tms.security.resources import Action, topic_resource
from tms.wire.json_fields import ID_EXAMPLE, MESSAGE_ID, TIME

DEBUG = "/v1/debug"

_HEX_DIGITS_MAX = 4096
_KEY = re.compile(f"([0-9a-f]{{2}}){{0,{_HEX_DIGITS_MAX // 2}}}", re.ASCII)
_WITH_MESSAGES = ("message", "payload")
"""The tables whose rows require the right to consume the topic too."""
_INTENT = b"\xffintent".hex()
"""The prefix of keys in the transaction table whose rows have messages of several topics
(HBase)."""
_NEXT = "The start of the next part; null at the end."
_FACTS: Json = {"type": "object", "description": "The row's values by name."}
_ROWS = answer_of(Rows, {"Rows.rows": "The values of each row, by name.", "Rows.next": _NEXT})
_SIZE = answer_of(
    Size,
    {
        "Size.bytes": "The bytes of keys and values in this part.",
        "Size.disk_bytes": "The approximate size of the whole table on disk, in bytes.",
        "Size.next": _NEXT,
    },
)
_PROBLEMS = answer_of(
    Problems,
    {
        "Problems.sealed": ("Hidden rows, which a server sent when another one was the leader."),
        "Problems.without_payloads": (
            "References without stored messages: they published nothing."
        ),
        "Problems.next": _NEXT,
    },
)
_ROW = {
    "table": "message",
    "topic": "default:orders",
    "generation": 1,
    "published_ms": TIMESTAMP,
    "sequence": 0,
    "id": ID_EXAMPLE,
    "kind": "plain",
    "payload": "aGVsbG8=",
}


def _table_parameter(choices: tuple[str, ...]) -> Json:
    return query_choice("table", choices, "message", "The table.")


_AFTER = query_text(
    "after",
    "The value `next` of the previous part.",
    pattern=f"^([0-9a-f]{{2}}){{0,{_HEX_DIGITS_MAX // 2}}}$",
)
_LIMIT = parameter(
    "limit",
    "The most rows; there may be fewer if they are large.",
    {"type": "integer", "minimum": 1, "maximum": ROWS_MAX, "default": ROWS_MAX},
)
_NAMESPACE = query_text(
    "namespace",
    "The topic's namespace.",
    pattern=f"^[A-Za-z0-9_]{{1,{NAME_CHARS_MAX}}}$",
    default="default",
)
_TOPIC = query_text(
    "topic", "Only the rows of this topic.", pattern=f"^[A-Za-z0-9_-]{{1,{NAME_CHARS_MAX}}}$"
)
_TIME = parameter(
    "from", "Only messages of `topic` from this time on, in milliseconds since 1970.", TIME
)
_CLEANED = query_flag(
    "cleaned",
    "Also check that no row of a dead generation is left; use it after a cleanup pass.",
)
_ID = {"name": "id", "in": "query", "required": True, "schema": MESSAGE_ID, "example": ID_EXAMPLE}


def _inspection_of(exchange: Exchange) -> PartwiseInspection:
    """Return the server's inspection. Raises `InvalidRequest` (not_found) if it has none."""
    inspection = services_of(exchange).inspection
    if inspection is None:
        raise InvalidRequest("not_found", path=exchange.path)
    return inspection


def _after_of(values: Mapping[str, str]) -> str | None:
    """Return the start of a part. Raises `InvalidRequest` (invalid_query)."""
    text = values.get("after")
    if text is not None and not _KEY.fullmatch(text):
        raise invalid("after", text, "hexadecimal digits")
    return text


def _limit_of(values: Mapping[str, str]) -> int:
    return min(limit_of(values) or ROWS_MAX, ROWS_MAX)


def _topic_of(values: Mapping[str, str]) -> TopicId | None:
    """Return the topic that the query names. Raises `InvalidRequest`."""
    name = values.get("topic")
    return None if name is None else TopicId(values.get("namespace", "default"), name)


async def rows(exchange: Exchange) -> None:
    """Answer with decoded rows."""
    values = values_of(exchange.query)
    table, topic_id = choice_of(values, "table", TABLES, "message"), _topic_of(values)
    if topic_id is not None and table in _WITH_MESSAGES:
        _check_may_consume(exchange, topic_id)
    page = await _inspection_of(exchange).rows(
        table,
        topic_id,
        time_of(values, "from"),
        _after_of(values),
        _limit_of(values),
    )
    readable = [row for row in page.rows if _is_readable(exchange, row)]
    await _answer(exchange, replace(page, rows=readable))


def _check_may_consume(exchange: Exchange, topic_id: TopicId) -> None:
    """Raise as `Exchange.check_access` unless the operator may also consume a topic."""
    exchange.check_access(Action.CONSUME, topic_resource(topic_id.namespace, topic_id.name))


def _is_readable(exchange: Exchange, row: Facts) -> bool:
    """Whether a row has no message, or one of a topic that the caller may consume."""
    if row["table"] not in _WITH_MESSAGES:
        return not row.get("key", "").startswith(_INTENT) or is_superuser(exchange)
    namespace, _, name = row["topic"].partition(":")
    return exchange.may(Action.CONSUME, topic_resource(namespace, name))


async def size(exchange: Exchange) -> None:
    """Answer with the size of a part of a table."""
    values = values_of(exchange.query)
    table = choice_of(values, "table", TABLES, "message")
    sizes = await _inspection_of(exchange).size(table, _after_of(values), _limit_of(values))
    await _answer(exchange, sizes)


async def problems(exchange: Exchange) -> None:
    """Answer with the problems of a part of a table."""
    values = values_of(exchange.query)
    problems_found = await _inspection_of(exchange).problems(
        choice_of(values, "table", CHECKED, "message"),
        _after_of(values),
        _limit_of(values),
        is_cleaned=flag_of(values, "cleaned", default=False),
    )
    await _answer(exchange, problems_found)


async def explain(exchange: Exchange) -> None:
    """Answer with an explanation of a message id."""
    values = values_of(exchange.query)
    _check_may_consume(exchange, exchange.topic_id)
    message_id = parse_id(values.get("id", ""))
    explanation = await _inspection_of(exchange).explain(exchange.topic_id, message_id)
    await _answer(exchange, explanation)


async def _answer(exchange: Exchange, value: object) -> None:
    await exchange.answer(OK, msgspec.json.encode(value), JSON_TYPE)


_ERRORS = ("shard_required", "invalid_query", "invalid_limit", "not_found", "debug_busy")

_row = partial(Operation, action=Action.OPERATE, method="GET", tag="Server")
OPERATIONS = (
    _row(
        name="debugRows",
        path=f"{DEBUG}/rows",
        handler=rows,
        summary="Show rows of a table",
        description=(
            "The rows are decoded, in the order of their keys; nothing is changed. To see rows "
            "with messages, the caller needs `consume` on the topic: for one topic it is "
            "required, and a list of all topics omits rows of the others."
        ),
        query=(
            _table_parameter(TABLES),
            _NAMESPACE,
            _TOPIC,
            _TIME,
            _AFTER,
            _LIMIT,
            SHARD_PARAMETER,
        ),
        success="The rows.",
        answer=json_content(_ROWS, rows={"rows": [_ROW], "next": None}),
        errors=("invalid_namespace_name", "invalid_topic_name", "topic_not_found", *_ERRORS),
        is_compressed=True,
    ),
    _row(
        name="debugSize",
        path=f"{DEBUG}/size",
        handler=size,
        summary="Count the rows of a table",
        description="This counts one part; the sum of all parts is the whole table.",
        query=(_table_parameter(TABLES), _AFTER, _LIMIT, SHARD_PARAMETER),
        success="The size of the part.",
        answer=json_content(
            _SIZE,
            size={"rows": 10_000, "bytes": 1_370_000, "disk_bytes": 2_100_000, "next": "00ff"},
        ),
        errors=_ERRORS,
    ),
    _row(
        name="debugProblems",
        path=f"{DEBUG}/problems",
        handler=problems,
        summary="Check a table, or the cache",
        description="This checks that the rows are consistent with the other rows; no problems are "
        "expected.",
        query=(_table_parameter(CHECKED), _AFTER, _LIMIT, _CLEANED, SHARD_PARAMETER),
        success="The problems of the part, one line each.",
        answer=json_content(
            _PROBLEMS,
            none={
                "problems": [],
                "rows": 10_000,
                "sealed": 0,
                "without_payloads": 0,
                "next": None,
            },
        ),
        errors=_ERRORS,
    ),
    _row(
        name="debugExplain",
        path=f"{DEBUG}/namespaces/{{namespace}}/topics/{{topic}}/explain",
        handler=explain,
        summary="Explain a message id",
        description="This shows the parts of the id, the stored rows, and which readers get the "
        "message.",
        query=(_ID,),
        success="The facts about the id.",
        answer=json_content(
            _FACTS, plain={"id": ID_EXAMPLE, "published_ms": TIMESTAMP, "said": ["…"]}
        ),
        errors=("invalid_message_id", "topic_not_found", *_ERRORS),
    ),
)
