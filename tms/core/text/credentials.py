"""Removes passwords in URLs and tokens from texts in logs, errors and on screens.

zk://user:secret@a:2181,user:secret@b:2181/tms  becomes  zk://a:2181,b:2181/tms
tms_ID_SECRET                                   becomes  tms_ID_***

1. The time is linear in the length of any text, because strangers choose these texts.
2. It removes too much rather than too little: a password may contain characters that should have
   been written as %2F, and may look like the start of a URL.
3. Only `shortened` may cut a text: a URL that is cut before its @ would show its password.
"""

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote

_START = "://"
_WORD = re.compile(r"\S+")
_TOKENS_START = "tms_"
_TOKEN = re.compile(rf"({_TOKENS_START}[a-z0-9]{{12}}_)[A-Za-z0-9_-]{{20,}}", re.ASCII)
_BEHIND_HOST = ("/", "?", "#")
_SECRETS_MAX = 100
"""In a word with more @ than this, everything up to the last one is removed."""


def without_credentials(text: str, instead: str = "") -> str:
    """Return a text with `instead` of the user and password in each URL, and without tokens.

    If a percent-encoded part has some, the text is decoded.
    """
    shown = _without_plain_ones(text, instead)
    if "%" not in shown:
        return shown
    decoded = unquote(shown)
    cleaned = _without_plain_ones(decoded, instead)
    return shown if cleaned == decoded else cleaned


def _without_plain_ones(text: str, instead: str) -> str:
    if _TOKENS_START in text:
        text = _TOKEN.sub(r"\1***", text)
    if _START not in text or "@" not in text:
        return text
    return _WORD.sub(lambda word: _cleaned(word[0], instead), text)


def shortened(text: str, chars_max: int) -> str:
    """Return the start of a text, without credentials.

    A text that is cut loses everything from its last URL on, because the cut may be within a
    password.
    """
    shown = without_credentials(text)
    if len(shown) <= chars_max:
        return shown
    cut = shown[:chars_max]
    last_url = cut.rfind(_START)
    return cut if last_url < 0 else cut[:last_url]


def fit_to_be_shown(detail: Mapping[str, Any]) -> dict[str, Any]:
    """Return the detail of an error without credentials, nested values included."""
    return {name: _shown(value) for name, value in detail.items()}


def _shown(value: Any) -> Any:
    if isinstance(value, str):
        return without_credentials(value)
    if isinstance(value, dict):
        return {_shown(name): _shown(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_shown(inner) for inner in value]
    return value


def _cleaned(word: str, instead: str) -> str:
    """Return a text without spaces, without credentials."""
    before, start, rest = word.partition(_START)
    *parts, last = rest.split("@")
    if not parts:
        return word
    if len(parts) > _SECRETS_MAX or _is_cut_by_its_password(parts[0]):
        return f"{before}{start}{instead}{last}"
    shown = [before, start]
    is_behind_secret = False
    for number, part in enumerate(parts):
        at = _secret_from(part, is_first=number == 0, is_behind_secret=is_behind_secret)
        if at is None:
            shown += (part, "@")
        elif at > 0 or not is_behind_secret:
            shown += (part[:at], instead)
        is_behind_secret = at is not None
    return "".join((*shown, last))


def _is_cut_by_its_password(part: str) -> bool:
    """Whether the text between :// and the first @ is a user and a part of a password."""
    return _START not in part and ":" in part and _ends_host(part)


def _secret_from(part: str, *, is_first: bool, is_behind_secret: bool) -> int | None:
    """Return where the secret before an @ begins; None if there is none."""
    if is_first and (_START in part or not _ends_host(part)):
        return 0
    start = part.rfind(_START)
    if start >= 0 and is_behind_secret and "," not in part[:start]:
        return 0  # A host is not followed by another URL, so this is still the password.
    at = max(start + len(_START) if start >= 0 else 0, part.rfind(",") + 1)
    if _ends_host(part[at:]):
        return None
    return at if at or is_behind_secret else None


def _ends_host(text: str) -> bool:
    return any(mark in text for mark in _BEHIND_HOST)
