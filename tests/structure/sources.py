"""The project's Python files, each read once and parsed when a test first looks at its tree."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

PRODUCT = ("tms", "tables", "cleanup", "api", "pyspark_tms")
"""The folders of shipped code; one that does not exist yet has no files."""
ALL = (*PRODUCT, "tests", "bench", "examples", "scripts")


@dataclass(frozen=True)
class Source:
    """One Python file."""

    path: Path
    text: str

    @cached_property
    def tree(self) -> ast.Module:
        """The file, parsed."""
        return ast.parse(self.text, str(self.path))

    @property
    def place(self) -> str:
        """The path from the root of the project, as a person writes it."""
        return self.path.relative_to(ROOT).as_posix()

    @property
    def module(self) -> str:
        """The name by which to import it."""
        parts = self.path.relative_to(ROOT).with_suffix("").parts
        return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def sources(*folders: str) -> tuple[Source, ...]:
    """Return the Python files of `folders`, in order."""
    return tuple(read(path) for folder in folders for path in sorted((ROOT / folder).rglob("*.py")))


@cache
def read(path: Path) -> Source:
    """Return one file."""
    return Source(path, path.read_text(encoding="utf-8"))


@dataclass(frozen=True, slots=True)
class Import:
    """One name that a file imports."""

    line: int
    module: str
    """The module it comes from."""
    name: str | None
    """The name taken from the module; None for the module itself."""
    lazy: bool
    """Whether it is loaded only when a function runs."""


@cache
def nodes(tree: ast.AST) -> tuple[ast.AST, ...]:
    """Return all nodes of a tree, which is walked only once for all tests."""
    return tuple(ast.walk(tree))


@cache
def imports(tree: ast.Module) -> tuple[Import, ...]:
    """Return every import of a file, those for type checkers included."""
    return tuple(_imports(tree, lazy=False))


_WITH_STATEMENTS = (ast.stmt, ast.ExceptHandler, ast.match_case)


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
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                yield from _imports(child, lazy=True)
            case _ if isinstance(child, _WITH_STATEMENTS):
                yield from _imports(child, lazy=lazy)
