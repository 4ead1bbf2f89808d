"""Subjects and their contexts.

    name          a subject of the default context, "."
    :.ctx:name    a subject of the context ".ctx"; `:.:name` is `name`
    :.ctx:        the context itself, which may have settings; "" is the default one
    :.__GLOBAL:   settings above those of all contexts

A context has ids of its own. Names are stored in the first form that fits (`qualified`), which
parses to the same subject: the text after `:.:` is parsed as if it were alone.
"""

from typing import NamedTuple

from tms.core.text.credentials import shortened
from tms.registry.state.refusal import INVALID_SUBJECT, RegistryError

DEFAULT_CONTEXT = "."
DEFAULT_SCOPE = ""
"""The scope of settings for the default context."""
EVERYWHERE = ":.__GLOBAL:"
"""The scope of settings for all contexts."""
ALL_CONTEXTS = ":*:"

_CONTEXT_START = ":."
_DEFAULT_START = f":{DEFAULT_CONTEXT}:"
_DEFAULT_AGAIN = f"{_DEFAULT_START}{_CONTEXT_START}"
_RESERVED = frozenset(("__GLOBAL", "__EMPTY"))
_FIRST_PRINTABLE = " "
_DELETE = "\x7f"
SUBJECT_BYTES_MAX = 4096
"""The most bytes of a subject in a key, which must fit a message's frame."""


class Subject(NamedTuple):
    """A subject in its context."""

    context: str
    name: str

    @property
    def qualified(self) -> str:
        """The canonical text."""
        if self.context == DEFAULT_CONTEXT:
            return self.name
        return f":{self.context}:{self.name}"


def parse_subject(text: str) -> Subject:
    """Return the subject in a text; its name is empty if it is a context."""
    at = 0
    while text.startswith(_DEFAULT_AGAIN, at):
        at += len(_DEFAULT_START)
    text = text[at:]
    if not text.startswith(_CONTEXT_START):
        return Subject(DEFAULT_CONTEXT, text)
    context, _, name = text[1:].partition(":")
    return Subject(context, name)


def qualified(text: str) -> str:
    """Return the canonical text of a subject or a scope of settings."""
    return parse_subject(text).qualified


def context_of(subject: str) -> str:
    """Return the context of a subject."""
    return parse_subject(subject).context


def scope_of_context(context: str) -> str:
    """Return the scope of a context's settings."""
    return Subject(context, "").qualified


def scopes_of(subject: str) -> tuple[str, ...]:
    """Return the scopes of settings for a subject or scope, the narrowest first."""
    wider = scope_of_context(context_of(subject)), EVERYWHERE
    return tuple(dict.fromkeys((subject, *wider)))


def resolved_in(subject: str, context: str) -> str:
    """Return the subject of a name within a context."""
    if subject.startswith(_CONTEXT_START):
        return qualified(subject)
    return Subject(context, subject).qualified


def check_subject(text: str) -> str:
    """Return the canonical subject of a text.

    Raises `RegistryError` (42208) if it cannot have schemas.
    """
    subject = parse_subject(text)
    check_scope(text)
    if not subject.name or subject.name in _RESERVED or subject.context == EVERYWHERE[1:-1]:
        raise RegistryError(INVALID_SUBJECT, subject=text)
    return subject.qualified


def check_context(name: str) -> str:
    """Return the context of a name, possibly without its dot or qualified like `:.ctx:`.

    Raises `RegistryError` (42208) if it is not valid.
    """
    if name.startswith(_CONTEXT_START) and name.endswith(":"):
        name = name[1:-1]
    context = name if name.startswith(".") else f".{name}"
    if ":" in context:
        raise RegistryError(INVALID_SUBJECT, subject=name)
    check_scope(Subject(context, "").qualified)
    return context


def check_scope(text: str) -> str:
    """Return the scope of settings in a text. Raises `RegistryError` (42208)."""
    if any(char < _FIRST_PRINTABLE or char == _DELETE for char in text):
        raise RegistryError(INVALID_SUBJECT, subject=text)
    if len(text.encode(errors="replace")) > SUBJECT_BYTES_MAX or text in _RESERVED:
        raise RegistryError(INVALID_SUBJECT, subject=shortened(text, SUBJECT_BYTES_MAX))
    return qualified(text)
