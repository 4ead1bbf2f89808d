"""A messaging interface whose publishes may be lost on the way there or back."""

from collections.abc import Sequence
from typing import Any

from tms.core.errors import OutcomeUnknown
from tms.core.services.messaging import Messaging, Published
from tms.core.values.topic import TopicId


class Died(BaseException):
    """Raised where a process ends."""


class LossyMessaging:
    """Passes calls on to another interface; the next publish can be made to get lost."""

    def __init__(self, messaging: Messaging) -> None:
        self._messaging = messaging
        self.loss: str | None = None
        """The fate of the next publish."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._messaging, name)

    async def publish(self, topic_id: TopicId, payloads: Sequence[bytes], **more: Any) -> Published:
        loss, self.loss = self.loss, None
        if loss == "not sent":
            raise OutcomeUnknown(reason="lost on the way there")
        if loss == "died before":
            raise Died
        published = await self._messaging.publish(topic_id, payloads, **more)
        if loss == "lost":
            raise OutcomeUnknown(reason="lost on the way back")
        if loss == "died":
            raise Died
        return published
