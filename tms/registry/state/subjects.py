"""Subjects and their contexts.

    name          a subject of the default context, "."
    :.ctx:name    a subject of the context ".ctx"; `:.:name` is `name`
    :.ctx:        the context itself, of which there may be settings; "" is the default one
    :.__GLOBAL:   settings above those of all contexts

A context has ids of its own. Names are kept in the first form that fits (`qualified`), which means
the same if it is parsed again: what stands behind `:.:` is parsed as if it stood alone.
"""

from typing import NamedTuple

from tms.core.text.credentials import shortened
from tms.registry.state.refusal import INVALID_SUBJECT, RegistryError

DEFAULT_CONTEXT = "."
DEFAULT_SCOPE = ""
"""The scope of settings that hold for the default context."""
EVERYWHERE = ":.__GLOBAL:"
"""The scope of settings that hold for all contexts."""
ALL_CONTEXTS = ":*:"

_CONTEXT_START = ":."
_DEFAULT_START = f":{DEFAULT_CONTEXT}:"
_DEFAULT_AGAIN = f"{_DEFAULT_START}{_CONTEXT_START}"
_RESERVED = frozenset(("__GLOBAL", "__EMPTY"))
_FIRST_PRINTABLE = " "
_DELETE = "\x7f"
SUBJECT_BYTES_MAX = 4096
"""The most bytes of a subject in a key, which a message's frame must hold."""


class Subject(NamedTuple):
    """A subject in its context."""

    context: str
    name: str

    @property
    def qualified(self) -> str:
        """The one text that stands for it."""
        if self.context == DEFAULT_CONTEXT:
            return self.name
        return f":{self.context}:{self.name}"


def parse_subject(text: str) -> Subject:
    """Return the subject that a text names; its name is empty if it names a context."""
    at = 0
    while text.startswith(_DEFAULT_AGAIN, at):
        at += len(_DEFAULT_START)
    text = text[at:]
    if not text.startswith(_CONTEXT_START):
        return Subject(DEFAULT_CONTEXT, text)
    context, _, name = text[1:].partition(":")
    return Subject(context, name)


def qualified(text: str) -> str:
    """Return the one text that stands for a subject or a scope of settings."""
    return parse_subject(text).qualified


def context_of(subject: str) -> str:
    """Return the context of a subject."""
    return parse_subject(subject).context


def scope_of_context(context: str) -> str:
    """Return where the settings of a context are kept."""
    return Subject(context, "").qualified


def scopes_of(subject: str) -> tuple[str, ...]:
    """Return where settings for a subject or scope are looked for, the narrowest first."""
    wider = scope_of_context(context_of(subject)), EVERYWHERE
    return tuple(dict.fromkeys((subject, *wider)))


def resolved_in(subject: str, context: str) -> str:
    """Return the subject that a name means within a context."""
    if subject.startswith(_CONTEXT_START):
        return qualified(subject)
    return Subject(context, subject).qualified


def check_subject(text: str) -> str:
    """Return the subject that a text names, as it is kept.

    Raises `RegistryError` (42208) if there can be no schemas under it.
    """
    subject = parse_subject(text)
    check_scope(text)
    if not subject.name or subject.name in _RESERVED or subject.context == EVERYWHERE[1:-1]:
        raise RegistryError(INVALID_SUBJECT, subject=text)
    return subject.qualified


def check_context(name: str) -> str:
    """Return the context of a name, which may be without its dot, or qualified like `:.ctx:`.

    Raises `RegistryError` (42208) if there can be none.
    """
    if name.startswith(_CONTEXT_START) and name.endswith(":"):
        name = name[1:-1]
    context = name if name.startswith(".") else f".{name}"
    if ":" in context:
        raise RegistryError(INVALID_SUBJECT, subject=name)
    check_scope(Subject(context, "").qualified)
    return context


def check_scope(text: str) -> str:
    """Return the scope of settings that a text names. Raises `RegistryError` (42208)."""
    if any(char < _FIRST_PRINTABLE or char == _DELETE for char in text):
        raise RegistryError(INVALID_SUBJECT, subject=text)
    if len(text.encode(errors="replace")) > SUBJECT_BYTES_MAX or text in _RESERVED:
        raise RegistryError(INVALID_SUBJECT, subject=shortened(text, SUBJECT_BYTES_MAX))
    return qualified(text)
