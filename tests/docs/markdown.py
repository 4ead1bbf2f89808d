"""The fenced code blocks of the project's pages."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]

_BLOCK = re.compile(r"^```(?P<kind>\w+)\n(?P<text>.*?)^```$", re.DOTALL | re.MULTILINE)


class Block(NamedTuple):
    """One fenced block."""

    place: str
    kind: str
    text: str


def blocks(page: str) -> Iterator[Block]:
    """Yield the blocks of a page, in order."""
    whole = (ROOT / page).read_text(encoding="utf-8")
    for found in _BLOCK.finditer(whole):
        line = whole.count("\n", 0, found.start()) + 1
        yield Block(f"{page}:{line}", found["kind"], found["text"])


def needs_spark(block: Block) -> bool:
    """Whether a program needs a Spark session, and therefore runs with the tests that have one."""
    return block.kind == "python" and "spark." in block.text


def links(page: str) -> Iterator[Path]:
    """Yield the files of this project that a page links to."""
    folder = (ROOT / page).parent
    whole = (ROOT / page).read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", whole):
        if "://" not in target:
            yield folder / target
