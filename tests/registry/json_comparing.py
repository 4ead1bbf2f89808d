"""Comparisons of JSON Schemas, in the form that tests need."""

import json
from typing import Any

from tms.registry.json.json_schemas import parse


def kinds(old: Any, new: Any) -> list[str]:
    """Return the kinds of the reasons why `new` does not accept all that `old` accepts."""
    found = parse(json.dumps(new)).incompatibilities(parse(json.dumps(old)))
    assert all(each.message and each.path for each in found)
    return [each.kind for each in found]
