"""Makes the client for threads from the client for asyncio: `python -m dev.sync_client`.

The files it writes are committed, so that people, editors and type checkers read them as any other;
`tests/client/test_sync_client.py` compares them with what this makes. The rules, by which a class
`AsyncX` becomes `X`, which has an `AsyncX` and calls it in an event loop of a thread (`Bridge`):

- Signatures stay, but for their types: `AsyncY` is `Y`, `AsyncGenerator[T, None]` is `Iterator[T]`.
  A parameter `caller` goes: it is for servers.
- A coroutine function is called in the loop. A method that gives messages one by one has a sibling
  named `…_runs`, which gives them in runs: this is called, so that the loop is asked once a run. A
  property or another method is asked at once; an `AsyncY` that it returns is put into a `Y`.
- A method that takes a coroutine function is written out without `async` and `await`.
- What is private, a sibling `…_runs` and what `LEFT_OUT` names is left out.
- `OWN` has what threads need otherwise: bodies, and what their docstrings say besides.
- Docstrings are those of the asynchronous methods without `await`, "tasks" being "threads".
  `SENTENCES` has those that are true of one of the two only.
"""

import ast
import builtins
import re
import subprocess
import sys
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass
from inspect import cleandoc
from pathlib import Path
from textwrap import fill, indent

ROOT = Path(__file__).resolve().parents[1]
LINE_CHARS_MAX = 100
NO_BREAK = "\N{NO-BREAK SPACE}"
Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, slots=True)
class Made:
    """A class that is made, and the function beside it."""

    source: str
    """The module that it is made from."""
    module: str
    name: str
    attribute: str
    """What the asynchronous object is called in it."""
    through: str = "bridge"
    function: str = ""

    @property
    def path(self) -> Path:
        """The file that has it."""
        return path_of(self.module)


MADE = (
    Made("tms.client.async_client", "tms.client.client", "Client", "client", function="connect"),
    Made("tms.client.async_topic", "tms.client.topic", "Topic", "topic"),
    Made(
        "tms.client.async_subscription", "tms.client.subscription", "Subscription", "subscription"
    ),
    Made("tms.client.async_group", "tms.client.group", "TopicGroup", "group"),
    Made(
        "tms.client.async_group_message",
        "tms.client.group_message",
        "GroupMessage",
        "taken",
    ),
    Made(
        "tms.client.async_transaction",
        "tms.client.transaction",
        "TransactionContext",
        "context",
        through="home",
    ),
    Made("tms.core.transactions", "tms.client.transactions", "Transactions", "transactions"),
    Made("tms.core.schemas", "tms.client.schemas", "Schemas", "schemas"),
    Made("tms.core.namespaces", "tms.client.namespaces", "Namespaces", "namespaces"),
)
LEFT_OUT = (
    "calling_by",
    "hold",
    "begin_commit",
    "commit_acks",
    "committed",
    "in_doubt",
    "rolled_back",
    "settle_as",
)
SERVERS_ONLY = "caller"


@dataclass(frozen=True, slots=True)
class Own:
    """A body, and what the docstring says besides."""

    body: str
    also: str = ""


OWN = {
    "connect": Own("""
        client = connect_remote(
            url,
            namespace,
            timeout_s=timeout_s,
            retry_for_s=retry_for_s,
            compress=compress,
            auth=auth,
            ca=ca,
            certificate=certificate,
            allow_plaintext=allow_plaintext,
            direct=direct,
        )
        if client is None:
            return Client(*open_in_thread(url, namespace, retry_for_s=retry_for_s))
        bridge = Bridge()
        bridge.close_with(client.close)
        return Client(client, bridge)
        """),
    "Client.publish_all": Own("""
        taken = [message.taken for message in acks]
        return self._bridge.call(
            self._client.publish_all, publications, acks=taken, owner=owner, sequence=sequence
        )
        """),
    "Client.close": Own(
        "self._bridge.close()",
        "A call that is under way, in another thread or interrupted by the signal handler that "
        "closes, raises `OutcomeUnknown`; later ones raise `RuntimeError`. A program that ends "
        "without closing does it as it ends.",
    ),
    "Client.__enter__": Own("return self"),
    "TopicGroup.take": Own("""
        runs = self._group.take_runs(prefetch=prefetch, lease_s=lease_s, hold_s_max=hold_s_max)
        with closing(self._bridge.iterate(runs)) as taken:
            for each in taken:
                yield GroupMessage(each, self._bridge)
        """),
    "TopicGroup.worker": Own("""
        begin = self._group.begin if transaction else None
        settings = WorkerSettings(concurrency, stop_s, lease_s, hold_s_max)

        def worker_of(function: Callable[..., Any]) -> GroupWorker:
            hold = self._group.hold
            return GroupWorker(hold, self._bridge, function, begin, participants, settings=settings)

        return worker_of
        """),
    "GroupMessage.__enter__": Own("return self"),
    "Subscription.run": Own("""
        def begin(participants: Iterable[TransactionAware]) -> TransactionContext:
            made = self._subscription.begin(participants=participants)
            return TransactionContext(made, self._bridge)

        run_in_thread(self, handler, begin, participants, limit)
        """),
    "Client.__exit__": Own("self.close()"),
    "TransactionContext.__init__": Own("""
        self._home = CallingThread(bridge)
        self._context = context.calling_by(self._home.invoke)
        """),
    "TransactionContext.gathered": Own("""
        self._home.check_process()
        return self._context.gathered
        """),
    "TransactionContext.abort": Own("self._home.end(self, self._context.abort)"),
    "TransactionContext.__enter__": Own("""
        self._home.begin(self, self._context.__aenter__)
        return self
        """),
    "TransactionContext.__exit__": Own(
        """
        if self._home.is_parents and error is not None:
            return
        self._home.end(self, self._context.__aexit__, kind, error, traceback)
        """,
        "A child that was forked within leaves it to its parent.",
    ),
    "Transactions.commit": Own(
        """
        commit = Commit(self._transactions, transaction_id, request)
        self._bridge.call(commit.finish, COMMIT_S)
        """,
        "If the answer is lost, the client asks what became of it, as in `Client.transaction`, and "
        "raises `OutcomeUnknown` if nobody says.",
    ),
}

SENTENCES = {
    "Any number of tasks may use it at once, in the event loop it was made in.": (
        "Any number of threads may use it at once; it has one thread of its own. Signal handlers "
        "may use it too. One that interrupts the client's first call gets `RuntimeError` with what "
        "to do instead."
    ),
    (
        "Use the client in one event loop, and close it there, best by `async with`; in another "
        "one it raises `RuntimeError`. A program that ends without closing it ends all the same, "
        "and nothing acknowledged is lost; calls that are under way are not waited for. In a child "
        "of `os.fork()` a client of a server works anew, in an event loop of the child's own; one "
        "on a store in this process raises `RuntimeError`."
    ): (
        "Close the client, best by `with`; a program that ends without that closes it as it ends. "
        "In a child of `os.fork()`, a client of a server that was made before works with "
        "connections of its own; one on a store in this process raises `RuntimeError` at once."
    ),
    (
        "A transaction belongs to the principal of the `caller` that started it. Methods that take "
        "the id of one raise `NotPermitted` (transaction_of_another) if the caller is another "
        "principal, and may not end any. A caller without a principal is not checked "
        "(`tms.core.caller`)."
    ): (
        "A transaction belongs to the principal that started it. Methods that take the id of one "
        "raise `NotPermitted` (transaction_of_another) if you are another principal, and may not "
        "end any. A program that works in a transaction itself has `Client.transaction`."
    ),
}
WORDS = {
    r"\basync (?=with\b|for\b|def\b)": "",
    r"\bawait ": "",
    r"\btms\.aio\.": "tms.",
    r"\bAsync(?=[A-Z])": "",
    r"\btask(?=s?\b)": "thread",
}
HOMES = {
    "Bridge": "tms.client.bridge",
    "COMMIT_S": "tms.client.commit_outcome",
    "CallingThread": "tms.client.callback_thread",
    "GroupWorker": "tms.client.worker",
    "closing": "contextlib",
    "Commit": "tms.client.commit_outcome",
    "Iterator": "collections.abc",
    "Retrying": "tenacity",
    "open_in_thread": "tms.client.in_process",
    "run_in_thread": "tms.client.subscription_loop",
    **{made.name: made.module for made in MADE},
}
"""Where what the made files name is from, if their sources do not import it."""


def path_of(module: str) -> Path:
    """Return the file of one of our modules."""
    return ROOT / f"{module.replace('.', '/')}.py"


def main() -> None:
    """Write all files anew."""
    for made in MADE:
        made.path.write_text(text_of(made), encoding="utf-8")


def text_of(made: Made) -> str:
    """Return what the file of a class is to be."""
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
        f'    """Stand on `{made.attribute}`, called through `bridge`."""\n'
        f"{indent(cleandoc(own.body), '    ')}"
    )
    return ast.parse(text).body[0]


def _function_of(made: Made, function: Function, name: str) -> ast.FunctionDef:
    """Return what `name`, a function or a method of a class, is for threads."""
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
    if returned.startswith("AsyncGenerator"):
        return f"return self._bridge.iterate({called}_runs({', '.join(given)}))"
    is_property = "property" in map(ast.unparse, method.decorator_list)
    value = called if is_property else f"{called}({', '.join(given)})"
    kind = returned.removeprefix("Async")
    return f"return {kind}({value}, self._bridge)" if returned != kind else f"return {value}"


def _arguments(method: Function) -> list[str]:
    """Return how a method hands its arguments on."""
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
    """Types of the client for asyncio become those of the one for threads."""

    def visit_Name(self, node: ast.Name) -> ast.Name:
        plain = node.id.removeprefix("Async")
        return ast.Name(plain, node.ctx) if plain in HOMES else node

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        self.generic_visit(node)
        match node:
            case ast.Subscript(ast.Name("AsyncGenerator"), ast.Tuple([item, _])):
                return ast.Subscript(ast.Name("Iterator", ast.Load()), item, node.ctx)
            case ast.Subscript(ast.Name("Awaitable"), item):
                return item
        return node


class _WithoutAwait(_PlainTypes):
    """The body of a coroutine function becomes that of a function."""

    def visit_Await(self, node: ast.Await) -> ast.AST:
        found: ast.AST = self.visit(node.value)
        return found

    def visit_AsyncWith(self, node: ast.AsyncWith) -> ast.AST:
        return self.generic_visit(ast.With(node.items, node.body))

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> ast.AST:
        return self.generic_visit(_plain(node, node.body))


def _doc(node: Function | ast.ClassDef, depth: int, also: str = "") -> ast.Expr:
    """Return the docstring of a function or class as threads read it."""
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
