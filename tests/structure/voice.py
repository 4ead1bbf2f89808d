"""Finds what CONTRIBUTING.md ("Voice") bans in all Python sources and in the pages.

`voice_left.txt` lists how often each file still has it; these numbers only go down. Lower them with
`python -m tests.structure.voice`.
"""

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

from tests.structure.sources import ALL, ROOT, Source, nodes, sources

LEFT = Path(__file__).with_name("voice_left.txt")
LOG_METHODS = {"debug", "info", "warning", "error", "exception", "critical"}

OPENING = re.compile(r"\A(?:What|Of|Who|Whose|Whoever|Have|Tells?) ")
"""The start of a docstring or comment that is neither a noun nor a plain verb."""
WORDS = re.compile(
    r"\b(?:told|tells|anew|besides|meanwhile|whoever|of late|take note|all but|without a doubt)\b"
    r"|\bso (?:many|much)\b(?! (?:more|less|longer|that|as)\b)"
    r"|\bstands?\b(?! for\b)"
    r"|\bwho (?:asks?|looks)\b|\b(?:as|by|for|of|to) who\b"
    r"|\b(?:put|comes?|goes|go|begins?|right) behind\b"
    r"|\bgo(?:es)? on\b"
    r"|\b(?:None|Raises `x`|also|empty|except|once) where\b"
    r"|(?:^|[ (])(?:None|0|Empty): ",
    re.IGNORECASE | re.MULTILINE,
)
NOT_AN_X = re.compile(
    r"(?<!there )\b(?:is|are|was|were) no (?!more\b|longer\b)[a-z]+", re.IGNORECASE
)
RULES = (OPENING, WORDS, NOT_AN_X)
CODE = re.compile(r"```.*?```|^    .*?$|`[^`]*`", re.DOTALL | re.MULTILINE)
QUOTED = re.compile(r'"[^"\n]*"')


def banned(text: str) -> list[str]:
    """Return the banned words and phrases of a text."""
    prose = re.sub(r"`[^`]*`", "`x`", text)
    return [match.group().strip() for rule in RULES for match in rule.finditer(prose)]


def texts_of(source: Source) -> Iterator[tuple[int, str]]:
    """Yield the docstrings, comments, log texts and reasons of a file, each with its line."""
    for node in nodes(source.tree):
        match node:
            case ast.Expr(value=ast.Constant(value=str(text))):
                yield node.lineno, text
            case ast.Call(func=ast.Attribute(attr=name), args=[text, *_]) if name in LOG_METHODS:
                yield text.lineno, _words(text)
            case ast.keyword(arg="reason", value=text):
                yield text.lineno, _words(text)
    for token in tokenize.generate_tokens(io.StringIO(source.text).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string.lstrip("# ")


def _words(node: ast.expr) -> str:
    parts = node.values if isinstance(node, ast.JoinedStr) else [node]
    return "x".join(part.value for part in parts if _is_text(part))  # type: ignore[attr-defined]


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def pages() -> Iterator[tuple[str, str]]:
    """Yield the prose of the pages; of CHANGELOG.md only what is not released."""
    names = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "tests/README.md")
    for path in [*(ROOT / name for name in names), *sorted((ROOT / "docs").glob("*.md"))]:
        text = path.read_text(encoding="utf-8")
        if path.name == "CHANGELOG.md":
            text = "".join(text.partition("\n## ")[2].partition("\n## ")[0])
        yield path.relative_to(ROOT).as_posix(), QUOTED.sub('"x"', CODE.sub("x", text))


def found() -> dict[str, list[str]]:
    """Return the banned words of each file that has any."""
    in_sources = {
        source.place: [
            f"{source.place}:{line}: {phrase}"
            for line, text in texts_of(source)
            for phrase in banned(text)
        ]
        for source in sources(*ALL, "dev")
    }
    in_pages = {place: [f"{place}: {phrase}" for phrase in banned(text)] for place, text in pages()}
    return {place: places for place, places in (in_sources | in_pages).items() if places}


def left() -> dict[str, int]:
    """Return how often each file may still have banned words."""
    rows = (line.split() for line in LEFT.read_text(encoding="utf-8").splitlines())
    return {place: int(count) for count, place in rows}


def lower() -> None:
    """Lower the numbers of `voice_left.txt` to what the files have."""
    now = found()
    counts = {place: min(count, len(now.get(place, ()))) for place, count in left().items()}
    rows = [f"{count} {place}\n" for place, count in sorted(counts.items()) if count]
    LEFT.write_text("".join(rows), encoding="utf-8")


if __name__ == "__main__":
    lower()
