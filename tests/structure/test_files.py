"""Files and functions are short enough to read in one sitting, and named after their content."""

import ast
import re

from tests.structure.sources import ALL, nodes, sources

FILE_LINES_MAX = 500
FUNCTION_LINES_MAX = 70

SAY_NOTHING = frozenset({"util", "utils", "common", "helper", "helpers", "manager", "misc"})
"""Names that would fit any file."""

UNFINISHED = re.compile(r"\b(TO" r"DO|FIX" r"ME|XX" r"X)\b|NotImplemented" r"Error")
"""Split in parts, so that this file does not match it."""


TEST_MODULE = re.compile(r"^\s*(?:from|import) tests\.(?:\w+\.)*test_\w+", re.MULTILINE)


def test_nothing_is_imported_from_test_modules() -> None:
    """Code that tests share belongs in a module of its own."""
    assert [each.place for each in sources(*ALL) if TEST_MODULE.search(each.text)] == []


def test_files_are_short() -> None:
    long = {
        source.place: lines
        for source in sources(*ALL)
        if (lines := source.text.count("\n")) > FILE_LINES_MAX
    }

    assert long == {}


def test_functions_are_short() -> None:
    long = {
        f"{source.place}:{node.lineno} {node.name}": lines
        for source in sources(*ALL)
        for node in nodes(source.tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (lines := (node.end_lineno or 0) - node.lineno + 1) > FUNCTION_LINES_MAX
    }

    assert long == {}


def test_every_module_says_what_it_is() -> None:
    silent = [source.place for source in sources(*ALL) if not ast.get_docstring(source.tree)]

    assert silent == []


def test_names_of_modules_say_what_is_inside() -> None:
    empty_names = [
        source.place
        for source in sources(*ALL)
        if SAY_NOTHING & {part.strip("_") for part in source.module.split(".")}
    ]

    assert empty_names == []


def test_nothing_is_left_to_do() -> None:
    left = [
        f"{source.place}:{number}: {line.strip()}"
        for source in sources(*ALL)
        for number, line in enumerate(source.text.splitlines(), 1)
        if UNFINISHED.search(line)
    ]

    assert left == []
