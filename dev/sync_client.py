"""Generates the client for threads from the client for asyncio: `python -m dev.sync_client`.

The files are committed, so that people, editors and type checkers read them like any other;
`tests/client/test_sync_client.py` compares them with the output of this program. A class `AsyncX`
of `sync_classes.py` becomes `X`, which has an `AsyncX` and calls it in the event loop of a thread
(`Bridge`). The rules:

- Signatures stay the same, except that `AsyncY` becomes `Y`, and that a parameter `caller`, which
  is for servers, is dropped.
- A coroutine function is called in the loop. A method that yields single messages has a sibling
  named `…_runs`, which yields runs of them: this is called, so that the loop is used once per run.
  A property or another method is called directly; an `AsyncY` that it returns is wrapped in a `Y`.
- A method that takes a coroutine function is copied without `async` and `await`.
- Private names, siblings `…_runs` and the names in `LEFT_OUT` are omitted.
- `OWN` has the exceptions for threads: bodies, and additions to docstrings.
- Docstrings are those of the asynchronous methods without `await`, and with "threads" for "tasks".
  `SENTENCES` has sentences that are true for only one of the two.
"""

import ast
import builtins
import re
import subprocess
import sys
from collections.abc import Iterator
from copy import deepcopy
from inspect import cleandoc
from textwrap import fill, indent

from dev.sync_classes import (
    HOMES,
    LEFT_OUT,
    MADE,
    OWN,
    ROOT,
    SENTENCES,
    SERVERS_ONLY,
    Made,
    Own,
    path_of,
)

LINE_CHARS_MAX = 100
NO_BREAK = "\N{NO-BREAK SPACE}"
Function = ast.FunctionDef | ast.AsyncFunctionDef
WORDS = {
    r"\basync (?=with\b|for\b|def\b)": "",
    r"\bawait ": "",
    r"\btms\.aio\.": "tms.",
    r"\bAsync(?=[A-Z])": "",
    r"\btask(?=s?\b)": "thread",
}


def main() -> None:
    """Write all files again."""
    for made in MADE:
        made.path.write_text(text_of(made), encoding="utf-8")


def text_of(made: Made) -> str:
    """Return the text of a class's file."""
    source = ast.parse(path_of(made.source).read_text(encoding="utf-8"))
    body: list[ast.stmt] = [_class_of(made, source)]
    body += [
        _function_of(made, node, made.function)
        for node in source.body
        if isinstance(node, Function) and node.name == made.function
    ]
    head = (
        f'"""`{made.name}` for threads, made from `{made.source}`.\n\n'
        f'Do not edit it: change that, and run `python -m dev.sync_client`.\n"""\n\n'
    )
    tree = ast.fix_missing_locations(ast.Module(body, []))
    text = head + "\n".join(_imports_of(made, tree, source)) + "\n\n" + ast.unparse(tree)
    text = _ruff(text, "check", "--select=I", "--fix-only")
    return _ruff(text, "format")


def _ruff(text: str, *command: str) -> str:
    call = [sys.executable, "-m", "ruff", *command, "--quiet", "--stdin-filename=made.py", "-"]
    done = subprocess.run(call, input=text, capture_output=True, text=True, check=True, cwd=ROOT)
    return done.stdout


def _imports_of(made: Made, tree: ast.Module, source: ast.Module) -> Iterator[str]:
    homes: dict[str, str] = {}
    for node in source.body:
        match node:
            case ast.ImportFrom(module=str(module), names=names):
                homes |= {alias.name: module for alias in names}
            case ast.ClassDef(name=name) | ast.FunctionDef(name=name):
                homes[name] = made.source
            case ast.Assign(targets=[ast.Name(id=name)]):
                homes[name] = made.source
    homes |= HOMES
    bound, named = set(dir(builtins)), set()
    for each in ast.walk(tree):
        match each:
            case ast.Name(id=name, ctx=ast.Load()):
                named.add(name)
            case ast.Name(id=name) | ast.arg(arg=name):
                bound.add(name)
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                bound.add(name)
    for name in sorted(named - bound):
        yield f"from {homes[name]} import {name}"


def _class_of(made: Made, source: ast.Module) -> ast.ClassDef:
    (found,) = (
        node
        for node in source.body
        if isinstance(node, ast.ClassDef) and node.name == f"Async{made.name}"
    )
    plain = ast.parse(f"class {made.name}: ...").body[0]
    assert isinstance(plain, ast.ClassDef)
    plain.body = [_doc(found, 1), _init_of(made)]
    for node in found.body:
        if isinstance(node, Function) and _is_made(node):
            name = node.name.replace("__a", "__", 1)
            plain.body.append(_function_of(made, node, f"{made.name}.{name}"))
    return plain


def _is_made(function: Function) -> bool:
    name = function.name
    if name in ("__repr__", "__aenter__", "__aexit__"):
        return True
    return not (name.startswith("_") or name.endswith("_runs") or name in LEFT_OUT)


def _init_of(made: Made) -> ast.stmt:
    own = OWN.get(f"{made.name}.__init__") or Own(
        f"self._{made.attribute} = {made.attribute}\nself._bridge = bridge"
    )
    text = (
        f"def __init__(self, {made.attribute}: Async{made.name}, bridge: Bridge) -> None:\n"
        f'    """Use `{made.attribute}`, called through `bridge`."""\n'
        f"{indent(cleandoc(own.body), '    ')}"
    )
    return ast.parse(text).body[0]


def _function_of(made: Made, function: Function, name: str) -> ast.FunctionDef:
    """Return the version for threads of `name`, a function or a method of a class."""
    own = OWN.get(name, Own(""))
    if own.body:
        rest = ast.parse(cleandoc(own.body)).body
    elif "overload" in map(ast.unparse, function.decorator_list):
        return _plain(function, function.body)
    elif "Awaitable" in ast.unparse(function.args):
        rest = [_WithoutAwait().visit(deepcopy(node)) for node in function.body[1:]]
    else:
        rest = ast.parse(_call_of(made, function)).body
    plain = _plain(function, [_doc(function, 1 + name.count("."), own.also), *rest])
    plain.name = name.rpartition(".")[2]
    return plain


def _call_of(made: Made, method: Function) -> str:
    """Return the statement that calls the asynchronous method."""
    asked, returned = f"self._{made.attribute}", ast.unparse(method.returns or ast.Constant(None))
    called = f"{asked}.{method.name}"
    given = _arguments(method)
    if method.name == "__repr__":
        return f'return repr({asked}).replace("Async", "", 1)'
    if isinstance(method, ast.AsyncFunctionDef):
        passed = ", ".join((called, *given))
        return f"{'' if returned == 'None' else 'return '}self._{made.through}.call({passed})"
    if returned.startswith("AsyncMessages"):
        return f"return self._bridge.iterate({called}_runs({', '.join(given)}))"
    is_property = "property" in map(ast.unparse, method.decorator_list)
    value = called if is_property else f"{called}({', '.join(given)})"
    kind = returned.removeprefix("Async")
    return f"return {kind}({value}, self._bridge)" if returned != kind else f"return {value}"


def _arguments(method: Function) -> list[str]:
    """Return the arguments of a method in the form of a call."""
    taken = method.args
    positional = [each.arg for each in (*taken.posonlyargs, *taken.args) if each.arg != "self"]
    named = [f"{each.arg}={each.arg}" for each in taken.kwonlyargs if each.arg != SERVERS_ONLY]
    return positional + named + ([f"**{taken.kwarg.arg}"] if taken.kwarg else [])


def _plain(function: Function, body: list[ast.stmt]) -> ast.FunctionDef:
    """Return a function with the signature that threads see."""
    taken = deepcopy(function.args)
    kept = [at for at, each in enumerate(taken.kwonlyargs) if each.arg != SERVERS_ONLY]
    taken.kwonlyargs = [taken.kwonlyargs[at] for at in kept]
    taken.kw_defaults = [taken.kw_defaults[at] for at in kept]
    plain = ast.parse(f"def {function.name}(): ...").body[0]
    assert isinstance(plain, ast.FunctionDef)
    assert function.returns is not None
    plain.args = _PlainTypes().visit(taken)
    plain.returns = _PlainTypes().visit(deepcopy(function.returns))
    plain.decorator_list, plain.body = function.decorator_list, body
    return plain


class _PlainTypes(ast.NodeTransformer):
    """Converts types of the client for asyncio to those of the client for threads."""

    def visit_Name(self, node: ast.Name) -> ast.Name:
        plain = node.id.removeprefix("Async")
        return ast.Name(plain, node.ctx) if plain in HOMES else node

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        self.generic_visit(node)
        match node:
            case ast.Subscript(ast.Name("Awaitable"), item):
                return item
        return node


class _WithoutAwait(_PlainTypes):
    """Converts the body of a coroutine function to that of a function."""

    def visit_Await(self, node: ast.Await) -> ast.AST:
        found: ast.AST = self.visit(node.value)
        return found

    def visit_AsyncWith(self, node: ast.AsyncWith) -> ast.AST:
        return self.generic_visit(ast.With(node.items, node.body))

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> ast.AST:
        return self.generic_visit(_plain(node, node.body))


def _doc(node: Function | ast.ClassDef, depth: int, also: str = "") -> ast.Expr:
    """Return the docstring of a function or class for threads."""
    margin = " " * 4 * depth
    paragraphs = cleandoc(f"{ast.get_docstring(node)}\n\n{also}").split("\n\n")
    told = [_for_threads(each, LINE_CHARS_MAX - len(margin)) for each in paragraphs]
    text = "\n\n".join(told)
    if len(paragraphs) > 1:
        text += "\n"
    return ast.Expr(ast.Constant(indent(text, margin).lstrip(" ") + margin * (len(told) > 1)))


def _for_threads(paragraph: str, chars: int) -> str:
    is_code = paragraph.startswith(" ")
    if not is_code:
        paragraph = " ".join(paragraph.split())
        for sentence, other in SENTENCES.items():
            paragraph = paragraph.replace(sentence, other)
    for word, other in WORDS.items():
        paragraph = re.sub(word, other, paragraph)
    if is_code:
        return paragraph
    whole = re.sub("`.*?`", lambda code: code[0].replace(" ", NO_BREAK), paragraph)
    return fill(whole, chars, break_on_hyphens=False).replace(NO_BREAK, " ")


if __name__ == "__main__":
    main()
