"""docs/cleanup.md names settings, metrics and commands that exist."""

import re

import pytest
from prometheus_client import CollectorRegistry

from cleanup.cleaner import Cleaner
from cleanup.metrics import CleanupMetrics
from cleanup.runner import Runner
from tables.memory import MemoryStore
from tests.cleanup.nobody import NoServices
from tests.cli.conftest import run_command
from tests.docs.markdown import ROOT
from tests.manual_clock import ManualClock
from tms.core.limits import Limits
from tms.settings import Settings

PAGE = (ROOT / "docs" / "cleanup.md").read_text(encoding="utf-8")


def test_settings_are_there() -> None:
    named = set(re.findall(r"`((?:cleanup|transaction)_\w+)", PAGE))

    assert named <= set(Settings.model_fields)
    assert {name for name in Settings.model_fields if name.startswith("cleanup_")} <= named


def test_metrics_are_there() -> None:
    clock, limits, registry = ManualClock(1), Limits(), CollectorRegistry()
    cleaner = Cleaner(MemoryStore(), NoServices(), limits, clock)
    CleanupMetrics(registry, Runner(cleaner, limits, clock, lambda: 0), clock, lambda: None)
    there = {family.name for family in registry.collect()}

    assert set(re.findall(r"`(tms_cleanup_\w+)`", PAGE)) == there


@pytest.mark.parametrize("command", sorted(set(re.findall(r"^tms (\w+ \w+)", PAGE, re.MULTILINE))))
def test_commands_are_there(command: str) -> None:
    assert run_command(*command.split(), "--help")[0] == 0
