"""Checks the prerequisites of `format("tms")` other than Spark, before a job fails midway.

Spark reports failures of its workers deep within a trace. So the driver checks first whether the
workers' Python has what they need, and whether the server supports Arrow.
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
    """Raised if Spark's workers or the server lack something; the text says what to do."""


def check_workers(python: str, *, is_shipped: bool = False) -> None:
    """Raise `CannotRun` if workers that Spark starts as `python` cannot do their work.

    `python` is a command or a path, like `PYSPARK_PYTHON`. If it is not on this machine, it is not
    checked. `is_shipped` says that Spark sends this project's modules to the workers.
    """
    executable = shutil.which(python)
    # Not resolved: the Pythons of two environments may be links to the same file.
    if executable is None or os.path.abspath(executable) == os.path.abspath(sys.executable):  # noqa: PTH100
        return
    needed = OTHERS if is_shipped else (*OURS, *OTHERS)
    version, missing = _asked(executable, needed)
    faults = []
    if version.split(".")[:2] != platform.python_version().split(".")[:2]:
        faults.append(f"is Python {version}")
    if missing:
        faults.append(f"has no {', '.join(missing)}")
    if faults:
        own = shlex.quote(sys.executable)
        raise CannotRun(
            f"Spark starts its workers with {executable}, which {' and '.join(faults)}. "
            f"This program runs with {sys.executable}, Python {platform.python_version()}. Have "
            f"workers use that one: export PYSPARK_PYTHON={own}, or in a program, before it makes "
            'the session, os.environ["PYSPARK_PYTHON"] = sys.executable'
        )


def _asked(python: str, modules: Sequence[str]) -> tuple[str, list[str]]:
    """Return the version of a Python, and which of `modules` it lacks."""
    result = subprocess.run(  # noqa: S603  Spark starts the same
        [python, "-c", _ASK, *modules],
        check=False,
        capture_output=True,
        text=True,
        timeout=ASK_S_MAX,
    )
    version, *missing = result.stdout.split() or ["too old"]
    return version, missing


def without_arrow(url: str) -> CannotRun:
    """Return the error for a server without Arrow."""
    return CannotRun(
        f"The server at {url} has no Arrow, by which Spark reads and writes. In a clone, this "
        "installs it: scripts/environment arrow; with a wheel, "
        "pip install 'FILE.whl[server,arrow]'. Then start it again."
    )


def without_own_trace(method: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """Raise the method's own errors without their trace through this project.

    For methods that Spark calls on the driver, which shows the user the whole trace.
    """

    @wraps(method)
    def plainly(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
        try:
            return method(*args, **kwargs)
        except (TmsError, CannotRun) as error:
            raise error.with_traceback(None) from None

    return plainly
