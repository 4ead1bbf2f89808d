"""Requests that schemathesis generates for an operation."""

from typing import Any

import schemathesis
from hypothesis import reject
from hypothesis import strategies as st
from schemathesis.core.errors import InvalidSchema
from schemathesis.generation import GenerationMode


def cases_of(described: Any, mode: GenerationMode) -> st.SearchStrategy[schemathesis.Case[Any]]:
    """Return requests to an operation.

    For wrong requests, schemathesis turns right schemas into wrong ones. It cannot generate values
    of some of these ("an array with 1 demanded elements"), which are skipped. A schema of the
    document itself for which it fails is still an error.
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
