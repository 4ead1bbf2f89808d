"""One request, as access control and the audit see it: its parts, its caller, and its uses.

It cannot answer; its subclass, the exchange (`api.http.exchange`), does.
"""

from abc import abstractmethod
from collections.abc import Mapping
from typing import NamedTuple

from api.http.door.admitted import Admitted
from api.http.door.guarded import Guarded
from api.http.protocol.client_wire import ClientWire
from api.http.protocol.head import Fields
from tms.security.rules import Rule


class Use(NamedTuple):
    """An allowed use, which is reported once its outcome is known."""

    action: str
    resource: str
    rule: Rule | None = None
    """The rule that allowed it; None for a superuser."""
    about: str | None = None


class Request:
    """A request."""

    __slots__ = (
        "about",
        "admission",
        "authorization",
        "connection",
        "fields",
        "headers",
        "method",
        "names",
        "operation",
        "path",
        "query",
        "refusal",
        "status",
        "uses",
        "whole_body",
    )

    connection: ClientWire
    operation: Guarded | None
    """None if there is none, or another server has it."""
    method: str
    path: str
    """As received, not decoded."""
    query: bytes
    names: Mapping[str, str]
    """The decoded parts of the path that have names."""
    fields: Fields
    headers: Mapping[bytes, bytes]
    """The request's headers, by their names in lower case."""
    authorization: bytes | None
    """The value of Authorization, which `headers` does not have; None if there is none."""
    whole_body: bytes | None
    """None if it must still be received."""
    status: int
    """The status of the answer; 0 before there is one."""
    admission: Admitted | None
    """Its admission; None if everybody may do everything."""
    uses: dict[object, Use] | None
    """The allowed uses that are not reported to the audit yet, each once, in their order."""
    refusal: Exception | None
    """The error that was reported as a refusal."""
    about: str | None
    """The thing that the audit reports in addition to the resource."""

    @property
    @abstractmethod
    def request_id(self) -> str:
        """The id of the request, made if the caller sent none; the answer has it from then on."""

    @property
    @abstractmethod
    def has_request_id(self) -> bool:
        """Whether the caller sent an id, or one was made."""

    @property
    @abstractmethod
    def address(self) -> str:
        """The IP address of the caller, from its connection or a trusted proxy."""
