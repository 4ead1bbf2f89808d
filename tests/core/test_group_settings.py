"""A group's settings are declared once, and type checkers see the same ones."""

from dataclasses import fields, replace
from typing import Any, get_args, get_type_hints

import pytest

from tms.core.errors import InvalidRequest
from tms.core.values.group_settings import (
    DECLARED,
    DEFAULTS,
    SETTABLE,
    GroupOptions,
    GroupSettings,
    check_settings,
)

NUMBERS = [name for name, declared in DECLARED.items() if declared.ge is not None]


def changed(name: str, value: Any) -> GroupSettings:
    return replace(DEFAULTS, **{name: value})


def test_options_have_the_names_and_types_of_settings() -> None:
    types = {each.name: get_args(each.type)[0] for each in fields(GroupSettings)}

    assert get_type_hints(GroupOptions) == {name: types[name] for name in SETTABLE}


@pytest.mark.parametrize("name", NUMBERS)
def test_bounds_are_checked(name: str) -> None:
    least, most = DECLARED[name].ge, DECLARED[name].le
    assert least is not None
    assert most is not None
    for value in (least, most, getattr(DEFAULTS, name)):
        check_settings(changed(name, value))
    for wrong in (least - 1, most + 1, str(least), True, None, 1.5):
        with pytest.raises(InvalidRequest) as refused:
            check_settings(changed(name, wrong))
        assert refused.value.detail == {name: wrong, "least": least, "most": most}


@pytest.mark.parametrize(("name", "wrong"), [("paused", 1), ("paused", None), ("order", "key")])
def test_types_are_checked(name: str, wrong: Any) -> None:
    with pytest.raises(InvalidRequest):
        check_settings(changed(name, wrong))
