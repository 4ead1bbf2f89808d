"""The body of every answer that is an error: JSON, for server and client."""

from typing import Annotated, Any

import msgspec


class ProblemBody(msgspec.Struct):
    """What went wrong."""

    code: Annotated[str, msgspec.Meta(description="Stable; see each operation.")]
    message: Annotated[str, msgspec.Meta(description="The same for each code.")] = ""
    detail: Annotated[dict[str, Any], msgspec.Meta(description="What varies.")] = {}


class ErrorBody(msgspec.Struct):
    """An error."""

    error: ProblemBody
