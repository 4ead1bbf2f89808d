"""The settings that are limits: each is made from its field in `tms.core.limits`.

That field has its description, its default, its least value, and whether it is advanced.
"""

from dataclasses import Field, fields
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import create_model, model_validator

from tms.core.limits import SETTING, Limits, LimitSetting, PrincipalLimits, SchemaLimits
from tms.settings.fields import seldom, setting
from tms.settings.values import ServiceSettings

L = TypeVar("L", Limits, PrincipalLimits, SchemaLimits)
_PREFIXES: dict[type[Any], str] = {
    Limits: "",
    PrincipalLimits: "principal_",
    SchemaLimits: "registry_",
}
"""The limits, with what their settings have before the field's name."""


def _settings_of(kind: type[Any]) -> dict[str, Field[Any]]:
    """Return the fields of one kind of limits that users may set, by the setting's name."""
    return {_PREFIXES[kind] + each.name: each for each in fields(kind) if SETTING in each.metadata}


def _made(limit: Field[Any]) -> tuple[Any, Any]:
    """Return the type and the field of pydantic of a limit's setting."""
    told: LimitSetting = limit.metadata[SETTING]
    make, bound = seldom if told.is_advanced else setting, "ge" if told.may_be_zero else "gt"
    return limit.type, make(limit.default, told.description, **{bound: 0})


if TYPE_CHECKING:
    _Settings = ServiceSettings
else:
    _Settings = create_model(
        "_Settings",
        __base__=ServiceSettings,
        **{name: _made(each) for kind in _PREFIXES for name, each in _settings_of(kind).items()},
    )


class LimitSettings(_Settings):
    """The settings of the service with its limits. Values are checked when it is made."""

    @model_validator(mode="after")
    def _check_limits(self) -> "LimitSettings":
        self.limits()
        return self

    def limits(self) -> Limits:
        """Return the limits. Raises `ValueError` where they contradict each other."""
        return self._limits(Limits)

    def principal_limits(self) -> PrincipalLimits:
        """Return how much one principal may."""
        return self._limits(PrincipalLimits)

    def schema_limits(self) -> SchemaLimits:
        """Return how much the schema registry takes."""
        return self._limits(SchemaLimits)

    def _limits(self, kind: type[L]) -> L:
        settings = _settings_of(kind).items()
        return kind(**{each.name: getattr(self, name) for name, each in settings})
