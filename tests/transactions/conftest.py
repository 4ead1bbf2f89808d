"""What the tests of transactions share."""

import pytest

from tests.transactions.living import Living


@pytest.fixture
def living() -> Living:
    return Living()
