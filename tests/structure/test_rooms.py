"""Imports between the sub-packages of a package go one way, too."""

import pytest

from tests.structure.circles import circle
from tests.structure.sources import PRODUCT, sources


def room_of(module: str) -> str:
    """Return the package of a module."""
    return module.rpartition(".")[0]


@pytest.mark.parametrize("package", ["api.http", "tms.client", "tms.core", "tms.registry"])
def test_rooms_import_each_other_in_no_circle(package: str) -> None:
    files = [each for each in sources(*PRODUCT) if each.module.startswith(f"{package}.")]

    assert len({room_of(each.module) for each in files}) > 1
    assert circle(files, room_of) == ()
