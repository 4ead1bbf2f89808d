"""Rules, tokens and decisions in JSON, for server and client (`docs/security.md`)."""

from typing import Annotated

import msgspec
from msgspec import Meta

from tms.wire.json_fields import TIME, described_by

_Who = Annotated[
    str, Meta(description="A principal, `group:NAME`, or `*` for all authenticated callers.")
]
_Effect = Annotated[str, Meta(description="allow or deny.")]
_Kind = Annotated[str, Meta(description="topic, server or subject.")]
_Namespace = Annotated[
    str, Meta(description="For topics: a name, a prefix that ends with `*`, or `*`.")
]
_Name = Annotated[str, Meta(description="For topics and subjects: written like a namespace.")]
_Subscription = Annotated[
    str, Meta(description="For the action subscribe: written like a namespace.")
]
_Ends = Annotated[
    int, described_by({**TIME, "description": "The time in ms since 1970; null if never."})
]


class RuleRequest(msgspec.Struct, forbid_unknown_fields=True):
    """A rule to add."""

    who: _Who
    actions: list[str]
    effect: _Effect = "allow"
    kind: _Kind = "topic"
    namespace: _Namespace = ""
    name: _Name = ""
    subscription: _Subscription = "*"


class RuleBody(msgspec.Struct):
    """A rule in effect."""

    id: str
    who: _Who
    effect: _Effect
    actions: list[str]
    kind: _Kind
    namespace: _Namespace
    name: _Name
    subscription: _Subscription


class TokenRequest(msgspec.Struct, forbid_unknown_fields=True):
    """A token to create."""

    principal: str
    groups: list[str] = []
    expires_ms: _Ends | None = None


class TokenBody(msgspec.Struct):
    """A token, without its secret."""

    id: str
    principal: str
    groups: list[str]
    expires_ms: _Ends | None
    is_setting: Annotated[bool, Meta(description="Whether the server's settings define it.")]


class NewTokenBody(msgspec.Struct):
    """A token, shown only once."""

    id: str
    token: str
    principal: str
    expires_ms: _Ends | None


class RulingBody(msgspec.Struct):
    """Whether a principal may do something, and why."""

    allowed: bool
    reason: str
    rule: RuleBody | None


class CallerBody(msgspec.Struct):
    """The caller, as the server knows it."""

    principal: str | None
    groups: list[str]
    mechanism: str | None
    may: Annotated[
        list[str], Meta(description="The actions that the principal may do on the server.")
    ]
