"""The base of all errors of TMS, and the catalogue of what can go wrong.

A class of errors declares its `problems`: their codes with their texts, by the status of HTTP. A
class with one code has it as its default, and its docstring as the text unless it gives another; a
class with several codes, or none, names its default in `code`. Codes are part of the REST
interface: never change or reuse one.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from tms.core.text.credentials import fit_to_be_shown
from tms.core.text.printable import printable


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that can go wrong."""

    code: str
    status: int
    message: str


CATALOGUE: dict[str, Problem] = {}
"""All problems by their codes."""
_CLASSES: dict[str, type["TmsError"]] = {}


def at(status: int, **texts: str) -> tuple[Problem, ...]:
    """Return the problems answered with `status`: their texts by their codes."""
    return tuple(Problem(code, status, text) for code, text in texts.items())


class TmsError(Exception):
    """Base of all errors of TMS."""

    code: ClassVar[str] = "internal"
    problems: ClassVar[Sequence[Problem]] = ()

    def __init_subclass__(cls) -> None:
        """Enter the class's problems in the catalogue; a single code's text is the docstring."""
        own = vars(cls).get("problems", ())
        for problem in own:
            if problem.code in CATALOGUE:
                raise AssertionError(f"the code {problem.code} occurs twice")
            CATALOGUE[problem.code], _CLASSES[problem.code] = problem, cls
        if len(own) == 1:
            cls.code, cls.__doc__ = own[0].code, cls.__doc__ or own[0].message

    def __init__(self, code: str | None = None, /, **detail: Any) -> None:
        """Make the error `code`, by default the class's own, with `detail`."""
        self.problem = CATALOGUE[code or self.code]
        self.detail = fit_to_be_shown(detail)
        super().__init__(self.problem.message)

    @property
    def status(self) -> int:
        """The HTTP status for this error."""
        return self.problem.status

    def __str__(self) -> str:
        """Return the static message, then the detail, all printable: it may come from a server."""
        facts = ", ".join(f"{name}={value}" for name, value in self.detail.items())
        return printable(f"{self.problem.message} ({facts})" if facts else self.problem.message)

    def __reduce__(self) -> tuple[Any, ...]:
        """Let the error travel between processes with its detail."""
        return error_of, (self.problem.code, dict(self.detail))


class InternalError(TmsError):
    """Raised when the server itself is at fault."""

    problems = at(500, internal="The server failed; its log says why.")


def error_of(code: str, detail: Mapping[str, Any]) -> TmsError:
    """Return the error that `code` and `detail` describe, in the class that declares the code.

    A code that this version does not know, from a newer server, becomes an `InternalError`.
    """
    if code not in CATALOGUE:
        return InternalError(
            "internal", code=code, **{k: v for k, v in detail.items() if k != "code"}
        )
    return class_of(code)(code, **detail)


def class_of(code: str) -> type[TmsError]:
    """Return the class of the error `code`. Raises `KeyError` if there is no such code."""
    return _CLASSES[code]
