"""The fields of settings: each has a default and a description, and may have bounds.

Those that operators seldom need are in `[advanced]` of a settings file. They are left out of `tms
serve --help`, so that the others fit one screen. Their flags and environment variables work like
those of the others, and `tms config` lists them all.
"""

from typing import Any

from pydantic import Field

SECTION = "advanced"


def setting(default: object, description: str, **bounds: Any) -> Any:
    """Return the field of a setting, with `bounds` as pydantic names them: `ge`, `gt`, `le`."""
    return Field(default=default, description=description, **bounds)


def seldom(default: object, description: str, **bounds: Any) -> Any:
    """Return the field of a setting that operators seldom need."""
    return setting(default, description, json_schema_extra={SECTION: True}, **bounds)
