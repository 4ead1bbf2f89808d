"""Requests and answers about a topic, in JSON."""

from typing import Annotated

import msgspec

from tms.wire.json_fields import MESSAGE_ID, TIME, described_by, one_of, reference


class TopicBody(msgspec.Struct):
    """A topic with its properties."""

    name: str
    properties: Annotated[dict[str, str], described_by(reference("TopicProperties"))]


class TrimBody(msgspec.Struct, forbid_unknown_fields=True):
    """The time before which to trim a topic."""

    before: Annotated[
        int | str,
        described_by(
            {
                **one_of(TIME, MESSAGE_ID),
                "description": ("Milliseconds since 1970, or a message id, whose time is used."),
            }
        ),
    ]
