"""The files of pages: a stylesheet, and the files that `scripts/console_assets` installs."""

import mimetypes
from functools import cache
from pathlib import Path

from api.http.exchange import OK, Exchange
from tms.core.errors import InvalidRequest

_FOLDER = Path(__file__).parent / "assets"
_HEADERS = (
    (b"cache-control", b"max-age=300"),
    (b"x-content-type-options", b"nosniff"),
)


@cache
def _files() -> dict[str, tuple[bytes, bytes]]:
    """Return each file's content and type, by name."""
    return {
        file.name: (
            file.read_bytes(),
            (mimetypes.guess_type(file.name)[0] or "text/plain").encode(),
        )
        for file in _FOLDER.iterdir()
        if file.suffix in (".css", ".js")
    }


async def serve(exchange: Exchange) -> None:
    """Answer with a file."""
    file = _files().get(exchange.names["name"])
    if file is None:
        raise InvalidRequest("not_found", path=exchange.path)
    content, content_type = file
    await exchange.answer(OK, content, content_type, _HEADERS)
