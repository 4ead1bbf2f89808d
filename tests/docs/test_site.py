"""The site is built without a warning, and has a page of the code."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.markdown import ROOT


@pytest.mark.slow
def test_the_site_is_built_without_a_warning(tmp_path: Path) -> None:
    script = (ROOT / "scripts/site").read_text(encoding="utf-8")
    [flags] = re.findall(r"-m sphinx (.*) -c", script)
    built = subprocess.run(
        [sys.executable, "-m", "sphinx", *flags.split(), "-c", "dev/site", ".", str(tmp_path)],
        cwd=ROOT,
        check=False,
        capture_output=True,
        text=True,
    )
    assert (built.returncode, built.stderr) == (0, "")
    python = (tmp_path / "dev/site/api.html").read_text(encoding="utf-8")
    assert 'id="tms.Topic.publish"' in python
    assert "<code" in (tmp_path / "docs/metrics.html").read_text(encoding="utf-8")
    assert "backup_exists" in (tmp_path / "dev/site/errors.html").read_text(encoding="utf-8")
