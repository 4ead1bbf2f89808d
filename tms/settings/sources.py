"""Where the values of settings come from: flags, the environment, a file, the defaults."""

import difflib
import os
import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from pydantic_settings import EnvSettingsSource

from tms.core.text.credentials import without_credentials
from tms.settings.server import ADVANCED, Settings
from tms.settings.values import ENVIRONMENT_PREFIX, SECTION

CONFIG_VARIABLE = "TMS_CONFIG"
DEFAULT = "default"
_SECRET = frozenset({"auth_tokens"})
"""Settings whose wrong values may be secrets, such as a token in place of its hash."""

_OF_OTHERS = frozenset(
    {
        CONFIG_VARIABLE,
        "TMS_CA",
        "TMS_CERTIFICATE",
        "TMS_CERTIFICATE_KEY",
        "TMS_NAMESPACE",
        "TMS_TOKEN",
        "TMS_TOKEN_FILE",
        "TMS_URL",
    }
)
"""Variables of clients and the command line, which are not settings of the server."""

_OF_KUBERNETES = re.compile(
    r"TMS_(.+_)?(SERVICE_(HOST|PORT(_.+)?)|PORT(_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)?)"
)
"""The variables that Kubernetes sets in every container for a service named `tms` or `tms-…`."""


class WrongSettings(Exception):
    """Raised when settings cannot be used; each of `problems` is a line saying what to change."""

    def __init__(self, problems: list[str]) -> None:
        """Keep the problems."""
        self.problems = [without_credentials(problem) for problem in problems]
        super().__init__("\n".join(self.problems))


@dataclass(frozen=True, slots=True)
class Loaded:
    """Settings, with the source of each value."""

    settings: Settings
    sources: Mapping[str, str]
    """The source of each setting: a flag, an environment variable, a file, or `default`."""


def flag_of(name: str) -> str:
    """Return the flag of the setting `name`."""
    return "--" + name.replace("_", "-")


def variable_of(name: str) -> str:
    """Return the environment variable of the setting `name`."""
    return ENVIRONMENT_PREFIX + name.upper()


def load(flags: Mapping[str, object], config: Path | None = None) -> Loaded:
    """Return the settings from flags, the environment and a file.

    `flags` are values by the setting's name, None for an omitted flag; `config` is a TOML file,
    None for the one that TMS_CONFIG names, if any. Raises `WrongSettings`.
    """
    file = config or (
        Path(os.environ[CONFIG_VARIABLE]) if os.environ.get(CONFIG_VARIABLE) else None
    )
    values: dict[str, object] = {}
    sources = dict.fromkeys(Settings.model_fields, DEFAULT)
    problems = _unknown_variables()
    if file is not None:
        in_file, wrong = _settings_in(file)
        problems += wrong
        values.update(in_file)
        sources.update(dict.fromkeys(in_file, str(file)))
    in_environment = EnvSettingsSource(Settings)()
    values.update(in_environment)
    sources.update({name: variable_of(name) for name in in_environment})
    from_flags = {name: value for name, value in flags.items() if value is not None}
    values.update(from_flags)
    sources.update({name: flag_of(name) for name in from_flags})
    recognized = {name: value for name, value in values.items() if name in Settings.model_fields}
    try:
        settings = Settings.model_validate(recognized)
    except ValidationError as error:
        problems += _wrong_values(error, recognized, sources)
    if problems:
        raise WrongSettings(problems)
    return Loaded(settings, sources)


def _read(file: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise WrongSettings([f"{file} cannot be read: {error.strerror}"]) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise WrongSettings([f"{file} is not TOML: {error}"]) from None


def _settings_in(file: Path) -> tuple[dict[str, Any], list[str]]:
    """Return the settings of a file, and a line for each that is unknown or in the wrong place."""
    at_top = _read(file)
    section = at_top.pop(SECTION, {})
    if not isinstance(section, dict):
        raise WrongSettings([f"{file}: [{SECTION}] must be a table of settings"])
    problems = []
    for name in (*at_top, *section):
        if name not in Settings.model_fields:
            suggestion = _suggestion(name, Settings.model_fields)
            problems.append(f"{file}: {name} is not a setting{suggestion}")
        elif name in at_top and name in ADVANCED:
            problems.append(f"{file}: {name} belongs in the section [{SECTION}]")
        elif name in section and name not in ADVANCED:
            problems.append(f"{file}: {name} belongs above the section [{SECTION}]")
    return at_top | section, problems


def _unknown_variables() -> list[str]:
    valid = {variable_of(name) for name in Settings.model_fields} | _OF_OTHERS
    return [
        f"environment variable {name} is not a setting{_suggestion(name, valid)}"
        for name in sorted(os.environ)
        if name.startswith(ENVIRONMENT_PREFIX)
        and name not in valid
        and not _OF_KUBERNETES.fullmatch(name)
    ]


def _suggestion(name: str, names: Iterable[str]) -> str:
    close = difflib.get_close_matches(name, names, n=1)
    return f"; do you mean {close[0]}?" if close else "; `tms config` lists them all"


def _shown(name: str, value: object) -> str:
    return "***" if name in _SECRET else repr(value)


def _wrong_values(
    error: ValidationError, values: Mapping[str, object], sources: Mapping[str, str]
) -> list[str]:
    """Return a line for each wrong value: the setting, its value, its source, what is valid."""
    lines = []
    for wrong in error.errors(include_url=False):
        reason = wrong["msg"].removeprefix("Value error, ")
        if wrong["loc"]:
            names = [str(wrong["loc"][0])]
        else:  # a relation between limits, which its text names
            names = [name for name in Settings.model_fields if re.search(rf"\b{name}\b", reason)]
        problem = "; ".join(
            f"{name} is {_shown(name, values[name])} by {sources[name]}"
            if name in values
            else f"{name} is {Settings.model_fields[name].default!r} by default"
            for name in names
        )
        lines.append(f"{problem}: {reason}")
    return lines
