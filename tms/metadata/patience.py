"""Waits for a metadata store that was reached before and is unreachable for a while."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TypeVar

from tms.core.errors import MetadataUnavailable

RETRY_S = 1.0

T = TypeVar("T")
_log = logging.getLogger(__name__)


async def once_reached(call: Callable[[], Awaitable[T]]) -> T:
    """Return the result of `call`; while it raises `MetadataUnavailable`, repeat it."""
    while True:
        try:
            return await call()
        except MetadataUnavailable as error:
            _log.warning("waiting for the metadata store: %s", error)
        await asyncio.sleep(RETRY_S)
