"""Checks the prerequisites of `format("tms")` besides Spark, before a job fails in its midst.

Spark tells what its workers fail at deep within a trace. So the driver looks first: whether the
Python that it starts workers with has what they need, and whether the server talks Arrow.
"""

import os
import platform
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from functools import wraps
from typing import ParamSpec, TypeVar

from tms.core.errors import TmsError

OURS = ("tms", "pyspark_tms")
OTHERS = (
    *("anyio", "cachetools", "fastavro", "httptools", "jsonschema_rs", "msgspec", "numpy"),
    *("pandas", "pyarrow", "tenacity"),
)
ASK_S_MAX = 60.0
_ASK = """
import importlib.util, platform, sys
print(platform.python_version(), *[m for m in sys.argv[1:] if importlib.util.find_spec(m) is None])
"""

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


class CannotRun(RuntimeError):
    """Raised if Spark's workers, or the server, lack what they need; the text says what to do."""


def check_workers(python: str, *, is_shipped: bool = False) -> None:
    """Raise `CannotRun` if workers that Spark starts as `python` could not do their work.

    That is a command or a path, as `PYSPARK_PYTHON` has it. One that is not on this machine cannot
    be asked. `is_shipped` says that Spark brings the modules of this project to the workers.
    """
    found = shutil.which(python)
    # Not resolved: the Pythons of two environments may be links to the same file.
    if found is None or os.path.abspath(found) == os.path.abspath(sys.executable):  # noqa: PTH100
        return
    wanted = OTHERS if is_shipped else (*OURS, *OTHERS)
    version, missing = _asked(found, wanted)
    faults = []
    if version.split(".")[:2] != platform.python_version().split(".")[:2]:
        faults.append(f"is Python {version}")
    if missing:
        faults.append(f"has no {', '.join(missing)}")
    if faults:
        own = shlex.quote(sys.executable)
        raise CannotRun(
            f"Spark starts its workers with {found}, which {' and '.join(faults)}. This program "
            f"runs with {sys.executable}, Python {platform.python_version()}. Have workers use "
            f"that one: export PYSPARK_PYTHON={own}, or in a program, before it makes the "
            'session, os.environ["PYSPARK_PYTHON"] = sys.executable'
        )


def _asked(python: str, modules: Sequence[str]) -> tuple[str, list[str]]:
    """Return the version of a Python, and which of `modules` it does not have."""
    asked = subprocess.run(  # noqa: S603  Spark starts the same
        [python, "-c", _ASK, *modules],
        check=False,
        capture_output=True,
        text=True,
        timeout=ASK_S_MAX,
    )
    version, *missing = asked.stdout.split() or ["too old"]
    return version, missing


def without_arrow(url: str) -> CannotRun:
    """Return the error for a server that does not talk Arrow."""
    return CannotRun(
        f"The server at {url} has no Arrow, by which Spark reads and writes. In a clone, this "
        "installs it: scripts/environment arrow; with a wheel, "
        "pip install 'FILE.whl[server,arrow]'. Then start it again."
    )


def told_plainly(method: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """Have what `method` raises by intent told without the way it took through this project.

    For what Spark calls on the driver: it shows its user the whole trace.
    """

    @wraps(method)
    def plainly(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
        try:
            return method(*args, **kwargs)
        except (TmsError, CannotRun) as error:
            raise error.with_traceback(None) from None

    return plainly
