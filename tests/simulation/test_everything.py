"""A few seconds of `everything`, which can run for as long as you like."""

from pathlib import Path

import pytest

from tests.simulation.everything import run

pytestmark = pytest.mark.slow

SECONDS = 8.0
KILLS = 2
"""On a slow machine few servers run, and by chance all of them may stop in good order."""


def test_readers_are_given_what_the_model_says_through_kills(tmp_path: Path) -> None:
    counts = run(tmp_path, SECONDS, seed=4, kills=KILLS)

    assert counts["kills"] >= KILLS
    assert counts["polls"] > 0
    assert counts["take"] > 0
    assert counts["messages"] > counts["publish"] > 0
