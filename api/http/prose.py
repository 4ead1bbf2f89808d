"""Converts text with `code` in backticks, from errors or the OpenAPI document, to HTML."""

import re
from html import escape

_CODE = re.compile(r"`([^`\n]+)`")


def html_of(text: str) -> str:
    """Return a text as HTML: escaped, with text between backticks as code."""
    return _CODE.sub(r"<code>\1</code>", escape(text))
