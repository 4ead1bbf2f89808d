"""How cleanup stands, in JSON, and the step of a clock that is accepted.

The fields are those of `tms.core.values.cleanup`. Write pointers are text (`json_ids`), as which
the decoder takes them too. The states of the cluster and the clock are JSON as they are.
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


def told_bounds(bounds: Bounds | CleanupState) -> dict[str, Any]:
    """Return values for JSON of what has bounds, and of the invalid list."""
    told: dict[str, Any] = msgspec.to_builtins(bounds)
    for bound in told["bounds"]:
        bound["write_pointer"] = str(bound["write_pointer"])
    invalid = told["invalid"] or {}
    invalid |= {
        name: str(invalid[name]) for name in ("oldest", "held_by") if invalid.get(name) is not None
    }
    return told


def decode_cleanup(answer: bytes) -> CleanupState:
    """Return what a server has answered. Raises `InternalError`."""
    return decode_answer(CleanupState, answer, strict=False)
