"""The catalogue of what can go wrong: each code once, with its status, its class and its text.

A class of `tms.core.errors` stands here by its name, because the classes take their texts from
here.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from tms.core.errors.conflict_problems import CONFLICT_PROBLEMS
from tms.core.errors.request_problems import REQUEST_PROBLEMS
from tms.core.errors.server_problems import SERVER_PROBLEMS


@dataclass(frozen=True, slots=True)
class Problem:
    """A row of the catalogue: one thing that can go wrong."""

    code: str
    status: int
    message: str
    error: str
    """The name of its class in `tms.core.errors`."""


def _catalogue(table: Mapping[int, Mapping[str, Mapping[str, str]]]) -> dict[str, Problem]:
    problems = [
        Problem(code, status, message, error)
        for status, by_error in table.items()
        for error, messages in by_error.items()
        for code, message in messages.items()
    ]
    by_code = {problem.code: problem for problem in problems}
    if len(by_code) != len(problems):
        raise AssertionError("a code occurs twice in the catalogue")
    return by_code


CATALOGUE = _catalogue({**REQUEST_PROBLEMS, 409: CONFLICT_PROBLEMS, **SERVER_PROBLEMS})
