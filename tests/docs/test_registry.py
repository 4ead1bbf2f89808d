"""docs/registry.md names only things that exist."""

import re
from contextlib import AsyncExitStack

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from tests.cli.conftest import run_command
from tests.docs.markdown import ROOT, links
from tms.core.runtime.clock import SystemClock
from tms.server.registry_part import RegistryPart, open_registry
from tms.settings import Settings, flag_of

PAGE = "docs/registry.md"
TEXT = (ROOT / PAGE).read_text(encoding="utf-8")


def test_defaults_are_those_of_the_settings() -> None:
    told = dict(re.findall(r"^\| `(\w+)` \| ([0-9.]+) \|", TEXT, re.MULTILINE))

    assert len(told) > 1
    assert told == {name: str(Settings.model_fields[name].default) for name in told}


def test_flags_are_there() -> None:
    flags = {flag_of(name) for name in Settings.model_fields}
    named = set(re.findall(r"--registry-[a-z-]+", TEXT))

    assert named
    assert named <= flags


async def metrics() -> str:
    registry = CollectorRegistry()
    opened = await open_registry(Settings(), SystemClock(), AsyncExitStack())
    assert opened is not None
    RegistryPart(opened, Settings()).register(registry)
    return generate_latest(registry).decode()


@pytest.mark.anyio
async def test_metrics_are_there() -> None:
    shown = await metrics()
    for name in re.findall(r"`(tms_registry_[a-z_]+[a-z])`", TEXT):
        assert f"\n{name} " in shown


@pytest.mark.parametrize(
    "command", sorted(set(re.findall(r"^tms schema (\w+)", TEXT, re.MULTILINE)))
)
def test_commands_and_their_options_are_there(command: str) -> None:
    code, out, _ = run_command("schema", command, "--help")
    lines = [line for line in TEXT.splitlines() if line.startswith(f"tms schema {command}")]

    assert code == 0
    for option in re.findall(r" (--[a-z-]+)", " ".join(lines)):
        assert option in out


def test_links_lead_somewhere() -> None:
    assert [link for link in links(PAGE) if not link.exists()] == []
