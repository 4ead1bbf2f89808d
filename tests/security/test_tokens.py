"""Static tokens are recognized, and nothing else is."""

import re
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from tms.security.tokens import is_token, new_token, token_id_of


def test_a_token_is_known_by_what_is_kept_of_it_until_it_ends() -> None:
    token, kept = new_token("ann", frozenset("g"), expires_ms=1000)
    assert re.fullmatch(r"tms_[a-z0-9]{12}_[A-Za-z0-9_-]{43}", token)
    assert token_id_of(token) == kept.id
    assert (kept.principal, kept.groups) == ("ann", frozenset("g"))
    assert token.split("_", 2)[2] not in repr(kept)
    assert is_token(token, kept, 999)
    assert not is_token(token, kept, 1000)
    assert is_token(token, replace(kept, expires_ms=None), 10**15)


def test_two_tokens_are_not_taken_for_each_other() -> None:
    (token, kept), (other, other_kept) = new_token("ann"), new_token("ann")
    assert not is_token(token, other_kept, 0)
    assert not is_token(token, replace(kept, id=other_kept.id), 0)
    mixed = f"tms_{kept.id}_{other.split('_', 2)[2]}"
    assert not is_token(mixed, kept, 0)
    assert not is_token(token, None, 0)


@given(st.text(max_size=80))
def test_any_other_text_is_not_a_token(text: str) -> None:
    _, kept = new_token("ann")
    assert not is_token(text, kept, 0)
    assert not is_token(f"tms_{kept.id}_{text}", kept, 0)
