"""The state of cleanup in JSON, and the accepted step of a clock.

The fields are those of `tms.core.values.cleanup`. Write pointers are text (`json_ids`), also for
the decoder. The states of the cluster and the clock are JSON without conversion.
"""

from typing import Annotated, Any

import msgspec

from tms.core.limits import JSON_INTEGER_MAX
from tms.core.values.cleanup import CleanupState
from tms.core.values.inspection import Bounds
from tms.wire.json_values import decode_answer


class StepBody(msgspec.Struct, forbid_unknown_fields=True):
    """A step to accept."""

    step_s: Annotated[int, msgspec.Meta(ge=-JSON_INTEGER_MAX, le=JSON_INTEGER_MAX)]


def bounds_record(bounds: Bounds | CleanupState) -> dict[str, Any]:
    """Return a state with bounds, and the invalid list, as values for JSON."""
    record: dict[str, Any] = msgspec.to_builtins(bounds)
    for bound in record["bounds"]:
        bound["write_pointer"] = str(bound["write_pointer"])
    invalid = record["invalid"] or {}
    invalid |= {
        name: str(invalid[name]) for name in ("oldest", "held_by") if invalid.get(name) is not None
    }
    return record


def decode_cleanup(answer: bytes) -> CleanupState:
    """Return the state in an answer. Raises `InternalError`."""
    return decode_answer(CleanupState, answer, strict=False)
