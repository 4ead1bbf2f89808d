"""Requests that schemathesis generates for an operation."""

from typing import Any

import schemathesis
from hypothesis import reject
from hypothesis import strategies as st
from schemathesis.core.errors import InvalidSchema
from schemathesis.generation import GenerationMode


def cases_of(described: Any, mode: GenerationMode) -> st.SearchStrategy[schemathesis.Case[Any]]:
    """Return requests to an operation.

    For wrong requests schemathesis makes wrong schemas of the right ones. Of some it cannot make a
    value ("an array with 1 demanded elements"): those are passed over. What it cannot make of the
    document itself is still an error.
    """
    strategy = described.as_strategy(mode)

    @st.composite
    def drawn(draw: st.DrawFn) -> schemathesis.Case[Any]:
        try:
            case: schemathesis.Case[Any] = draw(strategy)
        except InvalidSchema:
            if mode is GenerationMode.POSITIVE:
                raise
            reject()
        return case

    return drawn()
