"""Sphinx's settings for `scripts/site`: README and docs/ as they are, and pages from the code.

A link to a page becomes one to its HTML, and a link to another file of the repository a download.
"""

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

import tms  # noqa: E402
from tms.core.errors.catalogue import CATALOGUE, class_of  # noqa: E402

project = "TMS"
version = release = tms.__version__
root_doc = "README"
include_patterns = [
    *("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "docs/**", "dev/site/*.md"),
    *("bench/README.md", "tests/README.md"),
]
extensions = ["myst_parser", "sphinx.ext.autodoc"]
html_theme = "furo"
html_show_sourcelink = html_copy_source = False
html_show_copyright = False
myst_heading_anchors = 4
smartquotes = False  # it changes --flags
suppress_warnings = [
    "ref.python",  # several classes have a field of the same name
    "misc.highlighting_failure",  # Pygments does not know each language of the pages' blocks
]
default_role = "literal"  # a name in single backticks is code, in docstrings as in the pages
autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
autodoc_default_options = {"members": True, "exclude-members": "code, problems"}

_CONTENTS = {
    "Use": "session howto/* messages transactions groups filters positions schemas other_tools "
    "spark",
    "Run": "operations backup upgrading security namespaces cleanup cluster hbase console memory",
    "Look up": "promises /dev/site/* metrics registry clocks glossary",
    "How it is built": "ARCHITECTURE decisions formats coordination changing /CHANGELOG "
    "/CONTRIBUTING /bench/README /tests/README",
}
_BLOCK = re.compile(r"^(?P<before>.+[^:\n])\n\n(?P<code>(?:    .*\n|\n)*    .*\n)", re.MULTILINE)

_LINK = re.compile(r"\[(?P<text>[^\]]+)\]\((?P<target>[^)#:]+)\)")


def setup(app: Any) -> None:
    """Connect the functions below to Sphinx's events."""
    app.connect("source-read", _change_source)
    app.connect("autodoc-process-docstring", _from_markdown)


def _change_source(_app: Any, page: str, source: list[str]) -> None:
    """Add the contents to the first page, and the errors to theirs; folders have no page."""
    folder = (ROOT / page).parent

    def without_folder(link: re.Match[str]) -> str:
        return link["text"] if (folder / link["target"]).is_dir() else link[0]

    source[0] = _LINK.sub(without_folder, source[0])
    if page == root_doc:
        source[0] += "".join(_contents(title, names) for title, names in _CONTENTS.items())
    elif page == "dev/site/errors":
        source[0] += "\n".join(_errors())


def _contents(title: str, names: str) -> str:
    pages = [name if name.startswith("/") else f"/docs/{name}" for name in names.split()]
    glob = "\n".join(pages)
    return f"\n```{{toctree}}\n:hidden:\n:glob:\n:caption: {title}\n\n{glob}\n```\n"


def _errors() -> Iterator[str]:
    for code, problem in sorted(CATALOGUE.items()):
        yield f"| `{code}` | {problem.status} | `{class_of(code).__name__}` | {problem.message} |"


def _from_markdown(
    _app: Any, _kind: str, _name: str, _of: Any, _options: Any, lines: list[str]
) -> None:
    """Mark the code blocks of a docstring, which are only indented, as reStructuredText does."""
    lines[:] = _BLOCK.sub(r"\g<before>\n\n::\n\n\g<code>", "\n".join([*lines, ""])).split("\n")
