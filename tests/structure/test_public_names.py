"""Public names: `__all__` is sorted, complete and true, and no two classes share a name."""

import ast
from collections.abc import Iterator
from importlib import import_module

import pytest

import tms
from tests.structure.sources import PRODUCT, Source, nodes, sources
from tms.core.errors import TmsError


def exported(source: Source) -> list[str] | None:
    """Return the `__all__` of a file as it is written, None if it has none."""
    for node in source.tree.body:
        match node:
            case ast.Assign(targets=[ast.Name(id="__all__")], value=value):
                names: list[str] = ast.literal_eval(value)
                return names
    return None


WITH_ALL = [source for source in sources(*PRODUCT) if "\n__all__ = " in source.text]


def public_names(body: list[ast.stmt]) -> Iterator[str]:
    """Yield the names that a module defines for others, or imports from us to re-export."""
    for node in body:
        match node:
            case ast.ImportFrom(module=module, names=names) if str(module).startswith("tms"):
                yield from (alias.asname or alias.name for alias in names if alias.name != "*")
            case ast.ClassDef(name=name) | ast.FunctionDef(name=name):
                yield name
            case ast.AsyncFunctionDef(name=name):
                yield name
            case ast.Assign(targets=targets):
                yield from (target.id for target in targets if isinstance(target, ast.Name))
            case ast.If(test=ast.Name(id="TYPE_CHECKING"), body=inner):
                yield from public_names(inner)


@pytest.mark.parametrize("source", WITH_ALL, ids=lambda source: source.module)
def test_all_is_sorted(source: Source) -> None:
    names = exported(source)

    assert names is not None
    assert sorted(set(names)) == names


@pytest.mark.parametrize("source", WITH_ALL, ids=lambda source: source.module)
def test_all_is_complete(source: Source) -> None:
    names = {name for name in public_names(source.tree.body) if not name.startswith("_")}

    assert set() == names - set(exported(source) or ())


@pytest.mark.parametrize("source", WITH_ALL, ids=lambda source: source.module)
def test_all_names_only_what_is_there(source: Source) -> None:
    module = import_module(source.module)

    assert [name for name in exported(source) or () if not hasattr(module, name)] == []


CAUGHT_WITHIN = {"CarryAgain", "GroupLeftMemory"}
"""Errors that never leave what catches them, within the service."""


def test_every_error_is_a_name_of_the_library() -> None:
    def kinds(error: type[TmsError]) -> set[str]:
        return {error.__name__}.union(*(kinds(kind) for kind in error.__subclasses__()))

    assert set() == kinds(TmsError) - set(tms.__all__) - CAUGHT_WITHIN


def test_no_two_classes_have_one_name() -> None:
    places: dict[str, list[str]] = {}
    for source in sources(*PRODUCT):
        for node in source.tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places.setdefault(node.name, []).append(source.place)

    assert {name: found for name, found in places.items() if len(found) > 1} == {}


def test_there_is_one_subscription() -> None:
    defined = [
        source.module
        for source in sources(*PRODUCT)
        for node in nodes(source.tree)
        if isinstance(node, ast.ClassDef) and node.name == tms.Subscription.__name__
    ]

    assert defined == ["tms.client.topics.subscription"], (
        "whoever is given one reads its type's name"
    )


def test_a_name_that_is_not_there_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="nonsense"):
        _ = tms.nonsense
