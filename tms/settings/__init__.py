"""The settings of a server.

A setting is a flag of `tms serve` (`--poll-messages-max`), an environment variable
(`TMS_POLL_MESSAGES_MAX`) and a key of a TOML file (`poll_messages_max`). Advanced settings are in
the file's section `[advanced]`, and not in `--help`. Flags win over the environment, the
environment over the file, the file over the default. A duration, with `_s` in its name, is given in
seconds or as `30s`, `12h`, `7d`. All wrong values and unknown names are reported together, each
with its source and the valid values.
"""

from tms.settings.server import Settings
from tms.settings.sources import (
    DEFAULT,
    Loaded,
    WrongSettings,
    flag_of,
    load,
    variable_of,
)
from tms.settings.values import is_duration

__all__ = [
    "DEFAULT",
    "Loaded",
    "Settings",
    "WrongSettings",
    "flag_of",
    "is_duration",
    "load",
    "variable_of",
]
