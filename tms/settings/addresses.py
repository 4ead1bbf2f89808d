"""How addresses are written in settings."""

import re

ADDRESS = re.compile(r"(?P<host>\[[0-9A-Fa-f:.%]+\]|[^\s:\[\]/]+):(?P<port>\d{1,5})", re.ASCII)
URL = re.compile(r"https?://[^\s/]+:\d{1,5}", re.ASCII)
PORT_MAX = 65_535
