"""Answers questions about values of a schema, in a worker process."""

from collections.abc import Callable, Sequence

from tms.registry.questions.questions import (
    Answer,
    Converted,
    Decodes,
    FromJson,
    InJson,
    Misfit,
    Named,
    RecordName,
)
from tms.serdes.serde import Serde, Undecodable, Unencodable


def answer_about_values(question: Decodes | InJson | FromJson | RecordName, serde: Serde) -> Answer:
    """Answer a question with a serde."""
    match question:
        case RecordName():
            return Named(serde.record_name)
        case Decodes(_, payloads):
            return _first_damaged(serde, payloads) or Converted()
        case InJson(_, payloads):
            return _converted(lambda raw: serde.to_json(serde.decode(raw, 0)), payloads)
        case FromJson(_, texts):
            return _converted(lambda raw: serde.encode(serde.from_json(raw)), texts)


def _first_damaged(serde: Serde, payloads: Sequence[bytes]) -> Misfit | None:
    for index, payload in enumerate(payloads):
        try:
            serde.decode(payload, 0)
        except Undecodable as error:
            return Misfit(index, error.reason, error.field)
    return None


def _converted(convert: Callable[[bytes], bytes], parts: Sequence[bytes]) -> Converted:
    made: list[bytes | Misfit] = []
    for index, part in enumerate(parts):
        try:
            made.append(convert(part))
        except (Undecodable, Unencodable) as error:
            made.append(Misfit(index, error.reason, error.field))
    return Converted(tuple(made))
