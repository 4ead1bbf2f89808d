"""Makes texts printable: every invisible character is shown as its code.

So no foreign text can control a terminal (ESC, C1, BEL, BS, CR), reverse the direction of the text
around it, or look like another one because of blank letters.
"""

import re

_MARKS = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}
_BLANK = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180d\u180f\u2800\u3164\ufe00-\ufe0f\uffa0"
    "\U00016fe4\U0001d159\U000e0100-\U000e01ef]"
)
"""Letters and marks that Python prints, although they are invisible."""
_DOUBTFUL = re.compile(r"[^\x20-\x7e]")
_PLANE = 0x10000


def printable(text: str, *, allowed: str = "") -> str:
    r"""Return a text in which every character is visible, except those of `allowed`.

    Codes are JSON's (`\u001b`, `\n`), so JSON stays JSON and means the same.
    """
    if text.isprintable() and (text.isascii() or not _BLANK.search(text)):
        return text
    return _DOUBTFUL.sub(lambda match: match[0] if match[0] in allowed else _shown(match[0]), text)


def _shown(char: str) -> str:
    if char.isprintable() and not _BLANK.match(char):
        return char
    if char in _MARKS:
        return _MARKS[char]
    code = ord(char)
    if code < _PLANE:
        return f"\\u{code:04x}"
    units = char.encode("utf-16-be")
    return f"\\u{units[:2].hex()}\\u{units[2:].hex()}"
