"""How to install missing extras from where this project itself was installed.

The project is not in a package registry: it is installed from a clone, or from a wheel that
somebody built. A command that names neither finds nothing, or another package of this name.
"""

import sys
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from shlex import quote
from typing import Any
from urllib.parse import unquote, urlsplit

import msgspec

DISTRIBUTION = "tms-messaging"
_ROOT = Path(__file__).parents[3]


def install_command(*extras: str) -> str:
    """Return the command that adds these extras to the installation in the running Python."""
    return command_for(extras, _ROOT, _origin())


def missing(feature: str, error: ModuleNotFoundError, *extras: str) -> ModuleNotFoundError:
    """Return the error that says that `feature` needs these extras, and how to install them."""
    message = f"{feature} ({error.name} is missing): {install_command(*extras)}"
    return ModuleNotFoundError(message, name=error.name)


def command_for(extras: tuple[str, ...], root: Path, origin: str | None) -> str:
    """Return the command for a project in the folder `root`.

    `origin` is the URL that it was installed from, None if it is not known.
    """
    if (root / "scripts/environment").is_file() and Path(sys.prefix) == root / ".venv":
        return f"{quote(str(root / 'scripts/environment'))} {' '.join(extras)}"
    pip = f"{quote(sys.executable)} -m pip install"
    listed = f"[{','.join(extras)}]"
    if (root / "pyproject.toml").is_file():
        return f"{pip} -e {quote(f'{root}{listed}')}"
    if origin is None:
        # The project is installed, so pip only looks for what the extras name.
        return f"{pip} {quote(f'{DISTRIBUTION}{listed}')}"
    parts = urlsplit(origin)
    if parts.scheme == "file":
        return f"{pip} {quote(f'{unquote(parts.path)}{listed}')}"
    return f"{pip} {quote(f'{DISTRIBUTION}{listed} @ {origin}')}"


def _origin() -> str | None:
    """Return the URL that pip recorded when it installed this."""
    try:
        noted = distribution(DISTRIBUTION).read_text("direct_url.json")
    except PackageNotFoundError:
        return None
    if noted is None:
        return None
    url: Any = msgspec.json.decode(noted).get("url")
    return url if isinstance(url, str) else None
