"""Scheduled messages over REST.

Scheduling is repeated only if it certainly was not carried out, and so is a cancellation: a
second one would get 404, as if the message had been published.
"""

from collections.abc import Sequence

from tms.client.remote.calls import Calls, of_the_server
from tms.client.remote.remote_messaging import encode_publish, format_of, topic_path
from tms.core.values.caller import ANYBODY, Caller
from tms.core.values.schedules import (
    LISTED_DEFAULT,
    DeliveryTime,
    Scheduled,
    ScheduledMessage,
    place_of,
)
from tms.core.values.topic import TopicId
from tms.wire import json_schedules as bodies


class RemoteSchedules:
    """The schedules of a server, as `tms.core.values.schedules.Schedules`."""

    def __init__(self, calls: Calls) -> None:
        """Send requests by `calls`."""
        self._calls = calls

    async def schedule(
        self,
        topic_id: TopicId,
        payloads: Sequence[bytes],
        delivery: DeliveryTime,
        *,
        caller: Caller = ANYBODY,
    ) -> Scheduled:
        """Schedule messages; durable when it returns."""
        body_format = format_of(payloads)
        body = encode_publish(body_format, payloads, None)
        times = {"deliver_at": delivery.at_ms, "deliver_after": delivery.after_s}
        query = "&".join(f"{name}={value}" for name, value in times.items() if value is not None)
        path = f"{topic_path(topic_id)}/schedule?{query}"
        answer = await self._calls.once("POST", path, body, body_format.content_type, caller)
        with of_the_server():
            return bodies.decode_scheduled(answer)

    async def scheduled(
        self, topic_id: TopicId, after: str | None = None, limit: int = LISTED_DEFAULT
    ) -> Sequence[ScheduledMessage]:
        """Return the first messages that wait, after an id if one is given."""
        path = f"{topic_path(topic_id)}/scheduled?limit={limit}"
        if after is not None:
            path += f"&after={place_of(after).id}"
        answer = await self._calls.safely("GET", path)
        with of_the_server():
            return bodies.decode_waiting(answer)

    async def cancel_scheduled(
        self, topic_id: TopicId, scheduled_id: str, *, caller: Caller = ANYBODY
    ) -> None:
        """Cancel a scheduled message: it is never published. Durable when it returns."""
        path = f"{topic_path(topic_id)}/scheduled/{place_of(scheduled_id).id}"
        await self._calls.once("DELETE", path, caller=caller)
