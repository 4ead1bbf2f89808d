"""One request for a page: its parameters, the visitor, and the visitor's rights."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, quote

from api.console.browser_sessions import BrowserSession
from api.http.exchange import Exchange
from tms.core.errors import InvalidRequest
from tms.core.services.server_services import ServerServices
from tms.security.resources import SERVER, Action, Resource, topic_resource

ROOT = "/console"
_FIELDS_MAX = 64


@dataclass(frozen=True, slots=True)
class ShownPage:
    """A page: a template, and its values."""

    template: str
    values: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Done:
    """The result of a form: the browser is redirected within the console, and shows a notice."""

    place: str
    """It begins with a slash; if empty, it is the first page."""
    notice: str = ""


@dataclass(frozen=True, slots=True)
class Download:
    """Bytes that the browser saves, and never shows as a page."""

    name: str
    content: bytes


Answer = ShownPage | Done | Download


@dataclass(frozen=True, slots=True)
class Visit:
    """A request for a page, or of one of its forms."""

    exchange: Exchange
    session: BrowserSession | None
    """None if nobody is signed in, or if there is no access control."""
    form: Mapping[str, str]
    """The fields of a form; empty if it is not one."""
    is_read_only: bool
    """Whether the console refuses all changes."""

    @property
    def services(self) -> ServerServices:
        """The services that REST uses."""
        return self.exchange.context.services

    @property
    def names(self) -> Mapping[str, str]:
        """The names in the path."""
        return self.exchange.names

    @property
    def query(self) -> Mapping[str, str]:
        """The parameters of the page. Raises `InvalidRequest` if they are too many."""
        return fields_of(self.exchange.query)

    @property
    def root(self) -> str:
        """The relative path from this page to the first one, so that a proxy may add a prefix."""
        return root_of(self.exchange)

    @property
    def is_live(self) -> bool:
        """Whether an open page refreshes itself with this request."""
        return b"hx-request" in self.exchange.headers

    def may(self, action: Action, resource: Resource = SERVER, name: str | None = None) -> bool:
        """Whether the visitor may do an action."""
        return self.exchange.may(action, resource, name)

    def may_change(
        self, action: Action, resource: Resource = SERVER, name: str | None = None
    ) -> bool:
        """Whether a button for an action is shown."""
        return not self.is_read_only and self.may(action, resource, name)

    def may_topic(self, action: Action, namespace: str, topic: str | None) -> bool:
        """Whether the visitor may do an action to a topic, or within a namespace."""
        return self.may(action, topic_resource(namespace, topic))

    def may_change_topic(self, action: Action, namespace: str, topic: str) -> bool:
        """Whether a button for an action to a topic is shown."""
        return self.may_change(action, topic_resource(namespace, topic))

    def may_change_namespace(self, namespace: str) -> bool:
        """Whether a button that changes the settings of a namespace is shown."""
        return self.may_change(Action.MANAGE, topic_resource(namespace, None))

    def may_create_in(self, namespace: str) -> bool:
        """Whether a form for new topics of a namespace is shown: some name may be allowed."""
        if self.is_read_only:
            return False
        access, admission = self.exchange.context.access, self.exchange.admission
        if access is None or admission is None or admission.session is None:
            return access is None
        book, identity = access.grants.book, admission.session.identity
        return book.may_within(identity, Action.MANAGE, namespace)


Handler = Callable[[Visit], Awaitable[Answer]]


def root_of(exchange: Exchange) -> str:
    """Return the relative path from a page to the console's first one."""
    return "../" * (exchange.path.count("/") - 1) + ROOT[1:]


def place(*parts: str, **query: str) -> str:
    """Return a place below the console, made from parts with any characters."""
    encoded = "&".join(f"{name}={quote(value, safe='')}" for name, value in query.items() if value)
    return "".join(f"/{quote(part, safe='')}" for part in parts) + (
        f"?{encoded}" if encoded else ""
    )


def fields_of(encoded: bytes) -> Mapping[str, str]:
    """Return the fields of a form or a query. Raises `InvalidRequest` (invalid_body)."""
    try:
        text = encoded.decode("ascii")
        return dict(parse_qsl(text, keep_blank_values=True, max_num_fields=_FIELDS_MAX))
    except ValueError as error:
        raise InvalidRequest("invalid_body", reason=str(error)) from None
