"""Users and passwords in URLs, which are for whoever connects, not for logs, errors and screens.

zk://user:secret@a:2181,user:secret@b:2181/tms  becomes  zk://a:2181,b:2181/tms
"""

import re
from collections.abc import Mapping
from typing import Any

_CREDENTIALS = re.compile(r"(?:(?<=://)|(?<=,))[^/?#,\s]*@|(?<=://)[^/?#@\s]*@")
_WITH_SLASHES = re.compile(r"(?<=://)[^\s@]*://[^\s@]*@")
_NOT_ENCODED = re.compile(r"(?<=://)[^\s@]*:\S*@")
"""With a password in which there is what should have been written as %2F. Rather too much is left
out than too little; so with `_WITH_SLASHES`, where the password looks like the start of a URL."""


def without_credentials(text: str, instead: str = "") -> str:
    """Return a text with `instead` of the user and password of each URL in it."""
    if "://" not in text or "@" not in text:
        return text
    text = _WITH_SLASHES.sub(instead, text)
    hidden = _CREDENTIALS.sub(instead, text)
    return _NOT_ENCODED.sub(instead, text) if hidden == text else hidden


def fit_to_be_shown(detail: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the detail of an error without credentials."""
    return {
        name: without_credentials(value) if isinstance(value, str) else value
        for name, value in detail.items()
    }
