"""Makes the package's description from README.md: relative links become links to the source.

A hook of hatchling, which the build loads by its path (pyproject.toml).
"""

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

_RELATIVE = re.compile(r"\]\((?!\w+:|#)")


class ReadmeHook(MetadataHookInterface):
    """Sets the field `readme`."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Add the description to the `metadata` of pyproject.toml."""
        text = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        source = metadata["urls"]["Source"]
        metadata["readme"] = {
            "content-type": "text/markdown",
            "text": _RELATIVE.sub(f"]({source}/", text),
        }
