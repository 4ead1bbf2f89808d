"""What is answered of a topic, in JSON."""

from typing import Annotated

import msgspec

from tms.wire.json_fields import described_by, reference


class TopicBody(msgspec.Struct):
    """A topic with its properties."""

    name: str
    properties: Annotated[dict[str, str], described_by(reference("TopicProperties"))]
