"""The settings that a namespace may have, and the rules that follow."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tms.core.errors import InvalidRequest
from tms.core.limits import TTL_S_MAX, Limits
from tms.core.values.namespaces import NamespaceSettings, rules_of

NUMBERS = st.none() | st.integers(1, TTL_S_MAX)


def settings_or_none(**values: int | None) -> NamespaceSettings | None:
    try:
        return NamespaceSettings(**values)
    except InvalidRequest:
        return None


@pytest.mark.parametrize("name", NamespaceSettings.__slots__)
@pytest.mark.parametrize("value", [0, -1, 2**63])
def test_values_are_positive_and_of_64_bits(name: str, value: int) -> None:
    with pytest.raises(InvalidRequest) as error:
        NamespaceSettings(**{name: value})

    assert error.value.problem.code == "invalid_namespace_settings"
    assert error.value.detail["setting"] == name


@pytest.mark.parametrize(
    ("smaller", "larger"),
    [("ttl_s_default", "ttl_s_max"), ("message_bytes_max", "request_bytes_max")],
)
def test_settings_that_contradict_each_other_are_refused(smaller: str, larger: str) -> None:
    NamespaceSettings(**{smaller: 5, larger: 5})

    with pytest.raises(InvalidRequest):
        NamespaceSettings(**{smaller: 6, larger: 5})


@given(
    st.fixed_dictionaries(dict.fromkeys(NamespaceSettings.__slots__, NUMBERS)).map(
        lambda values: settings_or_none(**values)
    )
)
def test_what_holds_is_within_the_settings_and_the_servers_limits(
    settings: NamespaceSettings | None,
) -> None:
    if settings is None:
        return
    limits = Limits()
    rules = rules_of(settings, limits)

    assert 1 <= rules.ttl_s_default <= rules.ttl_s_max <= (settings.ttl_s_max or TTL_S_MAX)
    assert 1 <= rules.message_bytes_max <= rules.request_bytes_max <= limits.request_bytes_max
    assert rules.message_bytes_max <= min(
        limits.message_bytes_max, settings.message_bytes_max or limits.message_bytes_max
    )
    assert rules.publish_messages_per_s == settings.publish_messages_per_s
    assert rules.publish_bytes_per_s == settings.publish_bytes_per_s
    if settings.ttl_s_default is not None:
        assert rules.ttl_s_default == settings.ttl_s_default
