"""The error for a missing extra suggests a command that works for this installation."""

import shlex
import sys
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from tms.core.runtime import extras
from tms.core.runtime.extras import command_for, install_command

PIP = [sys.executable, "-m", "pip", "install"]


def test_in_a_clone_it_is_the_clone_that_is_installed(tmp_path: Path) -> None:
    clone = tmp_path / "a clone"
    clone.mkdir()
    (clone / "pyproject.toml").touch()

    told = shlex.split(command_for(("server", "arrow"), clone, None))
    assert told == [*PIP, "-e", f"{clone}[server,arrow]"]


def test_in_the_environment_of_a_clone_it_is_the_script_that_made_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "scripts").mkdir()
    (tmp_path / "scripts/environment").touch()
    monkeypatch.setattr(sys, "prefix", str(tmp_path / ".venv"))

    told = shlex.split(command_for(("server", "arrow"), tmp_path, None))
    assert told == [f"{tmp_path}/scripts/environment", "server", "arrow"]


def test_of_a_wheel_it_is_that_wheel(tmp_path: Path) -> None:
    url = "file:///home/some%20one/tms_messaging-0.1.0-py3-none-any.whl"
    told = shlex.split(command_for(("spark",), tmp_path, url))

    assert told == [*PIP, "/home/some one/tms_messaging-0.1.0-py3-none-any.whl[spark]"]


def test_of_a_wheel_elsewhere_it_is_its_url(tmp_path: Path) -> None:
    url = "https://example.com/tms_messaging-0.1.0-py3-none-any.whl"
    told = shlex.split(command_for(("spark",), tmp_path, url))

    assert told[:-1] == PIP
    wanted = Requirement(told[-1])
    assert (wanted.name, wanted.extras, wanted.url) == ("tms-messaging", {"spark"}, url)


def test_if_its_origin_is_not_known_it_is_what_is_installed(tmp_path: Path) -> None:
    told = shlex.split(command_for(("spark",), tmp_path, None))

    assert told == [*PIP, "tms-messaging[spark]"]


def test_here_it_is_this_clone() -> None:
    root = Path(extras.__file__).parents[3]

    assert str(root) in install_command("spark")
