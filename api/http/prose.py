"""Text with `code` in backticks, as it stands in errors and in the OpenAPI document, for pages."""

import re
from html import escape

_CODE = re.compile(r"`([^`\n]+)`")


def html_of(text: str) -> str:
    """Return a text as HTML: escaped, and with what is between backticks as code."""
    return _CODE.sub(r"<code>\1</code>", escape(text))
