"""A naive evaluator of filters, on decoded messages."""

from tms.core.values.filter_expressions import (
    Either,
    Every,
    Expression,
    FieldTest,
    Not,
    Operator,
)
from tms.core.values.message import Message


def matches(expression: Expression, message: Message) -> bool:
    """Evaluate a filter on a decoded message."""
    match expression:
        case Not(part):
            return not matches(part, message)
        case Every(parts):
            return all(matches(part, message) for part in parts)
        case Either(parts):
            return any(matches(part, message) for part in parts)
        case FieldTest(header, operator, value):
            found = message.key if header is None else message.headers.get(header)
            return {
                Operator.EXISTS: found is not None,
                Operator.EQUALS: found == value,
                Operator.DIFFERS: found != value,
                Operator.BEGINS: found is not None and found[: len(value)] == value,
            }[operator]
