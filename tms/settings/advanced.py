"""Marks the settings that operators seldom need: they stand in `[advanced]` of a settings file.

They are left out of `tms serve --help`, so that the others fit one screen. Their flags and
environment variables work like those of the others, and `tms config` lists them all.
"""

from typing import Annotated, TypeVar

T = TypeVar("T")
SECTION = "advanced"
Advanced = Annotated[T, SECTION]
"""The type of such a setting."""
