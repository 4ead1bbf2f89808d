"""The project's Python files, parsed once, as the tests beside this file look at them."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

PRODUCT = ("tms", "tables", "cleanup", "api", "pyspark_tms")
"""The folders of what is shipped; one that does not exist yet has no files."""
ALL = (*PRODUCT, "tests", "bench", "examples", "scripts")


@dataclass(frozen=True, slots=True)
class Source:
    """One Python file."""

    path: Path
    text: str
    tree: ast.Module

    @property
    def place(self) -> str:
        """The path as a person writes it, from the root of the project."""
        return self.path.relative_to(ROOT).as_posix()

    @property
    def module(self) -> str:
        """The name to import it by."""
        parts = self.path.relative_to(ROOT).with_suffix("").parts
        return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def sources(*folders: str) -> tuple[Source, ...]:
    """Return the Python files of `folders`, in order."""
    return tuple(read(path) for folder in folders for path in sorted((ROOT / folder).rglob("*.py")))


@cache
def read(path: Path) -> Source:
    """Return one file, which is parsed once."""
    text = path.read_text(encoding="utf-8")
    return Source(path, text, ast.parse(text, str(path)))


@dataclass(frozen=True, slots=True)
class Import:
    """One name that a file imports."""

    line: int
    module: str
    """The module it comes from."""
    name: str | None
    """What is taken from the module; None where it is the module itself."""
    lazy: bool
    """Whether it is loaded only when a function runs."""


def imports(tree: ast.Module) -> Iterator[Import]:
    """Give every import of a file, those for type checkers included."""
    yield from _imports(tree, lazy=False)


def _imports(node: ast.AST, *, lazy: bool) -> Iterator[Import]:
    for child in ast.iter_child_nodes(node):
        match child:
            case ast.Import(names=names):
                for alias in names:
                    yield Import(child.lineno, alias.name, None, lazy)
            case ast.ImportFrom(module=module, names=names, level=level):
                assert level == 0, f"line {child.lineno}: relative imports are banned by lint"
                for alias in names:
                    yield Import(child.lineno, module or "", alias.name, lazy)
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.Lambda():
                yield from _imports(child, lazy=True)
            case _:
                yield from _imports(child, lazy=lazy)
