"""axe-core, which finds the parts of a page that keep people from using it.

Its script is larger than all of the console, so it is not kept here: npm downloads it once.
"""

import hashlib
import os
import shutil
import subprocess
import tarfile
import tempfile
from functools import cache
from pathlib import Path

import pytest
from playwright.sync_api import Page

VERSION = "4.14.1"
SHA256 = "29348999450cdf2849a8e70b7912fc2da85a849da39c0d0d5394f51d4a9ed95c"
"""The hash of its axe.min.js."""
DOWNLOAD_S_MAX = 120
_GRAVE = ("serious", "critical")
_RUN = """async (rules) => {
  const options = {resultTypes: ["violations"], ...(rules && {runOnly: rules})};
  const told = await axe.run(document, options);
  return told.violations.map(({id, impact, nodes}) =>
    ({id, impact, nodes: nodes.map((each) => each.html.slice(0, 200))}));
}"""


def complaints(page: Page, *rules: str) -> list[str]:
    """Return the serious and critical faults of a page as it is now, by all rules or some."""
    if not page.evaluate("'axe' in window"):
        page.evaluate(_script())
    found = page.evaluate(_RUN, list(rules) or None)
    return [
        f"{each['id']} ({each['impact']}): {each['nodes'][:3]}"
        for each in found
        if each["impact"] in _GRAVE
    ]


@cache
def _script() -> str:
    cached = Path.home() / ".cache" / f"tms-axe-core-{VERSION}.min.js"
    if not cached.exists():
        if shutil.which("npm") is None:
            pytest.skip("axe-core comes by npm: apt-get install npm")
        cached.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run(
                ["npm", "pack", "--silent", f"axe-core@{VERSION}"],
                cwd=folder,
                check=True,
                stdout=subprocess.DEVNULL,
                timeout=DOWNLOAD_S_MAX,
            )
            with tarfile.open(f"{folder}/axe-core-{VERSION}.tgz") as package:
                script = package.extractfile("package/axe.min.js")
                assert script is not None
                fetched = cached.with_suffix(f".{os.getpid()}")
                fetched.write_bytes(script.read())
        fetched.replace(cached)
    content = cached.read_bytes()
    assert hashlib.sha256(content).hexdigest() == SHA256, f"{cached} is another: delete it"
    return content.decode()
