"""The jars of HBase and ZooKeeper, downloaded once with Maven (dev/hbase/pom.xml)."""

import os
import shutil
import subprocess
from pathlib import Path

from dev.processes import CannotStart

POM = Path(__file__).parent / "hbase" / "pom.xml"
DOWNLOAD_S_MAX = 900


def class_path() -> str:
    """Return the jars; Maven downloads them the first time. Raises `CannotStart`."""
    missing = [tool for tool in ("java", "mvn") if shutil.which(tool) is None]
    if missing:
        raise CannotStart(
            f"HBase needs {' and '.join(missing)}: apt-get install default-jdk-headless maven"
        )
    cache = Path.home() / ".cache" / "tms-hbase-class-path"
    if cache.exists() and cache.stat().st_mtime > POM.stat().st_mtime:
        jars = cache.read_text(encoding="utf-8")
        if all(Path(jar).exists() for jar in jars.split(":")):
            return jars
    cache.parent.mkdir(parents=True, exist_ok=True)
    listing = cache.with_suffix(f".{os.getpid()}")
    done = subprocess.run(
        [
            *("mvn", "-B", "-q", "-f", str(POM), "dependency:build-classpath"),
            f"-Dmdep.outputFile={listing}",
        ],
        capture_output=True,
        text=True,
        timeout=DOWNLOAD_S_MAX,
        check=False,
    )
    if done.returncode:
        raise CannotStart(f"{done.stdout[-2000:]}{done.stderr[-2000:]}\nMaven has no jars for it.")
    listing.replace(cache)
    return cache.read_text(encoding="utf-8")
