"""Imports go one way, between layers and between files: the arrows of docs/ARCHITECTURE.md.

A layer is a package and all below it. It may import itself, what `ARROWS` lists for it (layers, or
single files of one), and, inside a function only, what `LAZY_ARROWS` lists. Files import each other
without circles, even for type checkers or inside functions.
"""

import ast
import re
import sys
import tomllib
from collections.abc import Iterable

import pytest

from tests.structure.circles import circle
from tests.structure.sources import PRODUCT, ROOT, Import, Source, imports, nodes, sources

ARROWS: dict[str, frozenset[str]] = {
    "tms.core": frozenset(),
    "tms.contrib": frozenset({"tms", "tms.aio", "tms.client", "tms.core"}),
    "tms.wire": frozenset({"tms.core"}),
    "tms.arrow": frozenset({"tms.core", "tms.wire"}),
    "tms.serdes": frozenset({"tms.core"}),
    "tms.outgoing": frozenset(),
    "tms.security": frozenset({"tms.core", "tms.metadata", "tms.outgoing"}),
    "tms.transactions": frozenset({"tables.store_tables", "tables.transaction_table", "tms.core"}),
    "tms.metadata": frozenset({"tms.core"}),
    "tms.coordination": frozenset({"tms.core", "tms.metadata"}),
    "tms.cluster": frozenset({"tms.coordination", "tms.core", "tms.metadata"}),
    "tms.namespaces": frozenset({"tms.core", "tms.metadata"}),
    "tms.registry": frozenset({"tms.coordination", "tms.core", "tms.metadata", "tms.serdes"}),
    "tables": frozenset({"tms.core"}),
    "tms.messaging": frozenset(
        {
            "tables.group_table",
            "tables.schedule_table",
            "tables.store_tables",
            "tms.core",
            "tms.transactions",
        }
    ),
    "tms.watch": frozenset({"tms.core"}),
    "cleanup": frozenset({"tables", "tms.core", "tms.messaging", "tms.transactions"}),
    "api": frozenset(),
    "api.http": frozenset({"tms.security", "tms.core", "tms.watch", "tms.wire"}),
    "api.openapi": frozenset({"api.http", "tms.core", "tms.wire"}),
    "api.resources": frozenset({"tms.security", "api.http", "api.openapi", "tms.core", "tms.wire"}),
    "api.cluster": frozenset({"api.http", "tms.core", "tms.outgoing", "tms.security"}),
    "api.registry": frozenset(
        {
            "api.cluster",
            "api.http",
            "api.openapi",
            "tms.core",
            "tms.registry",
            "tms.security",
            "tms.wire",
        }
    ),
    "api.console": frozenset({"api.http", "tms.core", "tms.security", "tms.watch"}),
    "api.app": frozenset({"api.cluster", "api.http", "api.openapi", "api.resources", "tms.core"}),
    "tms.client": frozenset({"tms.core", "tms.outgoing", "tms.wire"}),
    "tms.spark": frozenset({"tms.client", "tms.core", "tms.serdes"}),
    "pyspark_tms": frozenset({"tms.spark"}),
    "tms.settings": frozenset({"tms.core"}),
    "tms.sharding": frozenset({"tms.core"}),
    "tms.server.sharded": frozenset(
        {
            "tms.core",
            "tms.messaging",
            "tms.metadata",
            "tms.namespaces",
            "tms.registry",
            "tms.server.shard",
            "tms.server.stores",
            "tms.settings",
            "tms.sharding",
            "tms.transactions",
        }
    ),
    "tms.server.opening": frozenset(
        {"tms.core", "tms.server.node", "tms.server.sharded", "tms.server.stores", "tms.settings"}
    ),
    "tms.server.jobs": frozenset(
        {
            "cleanup",
            "tables",
            "tms.core",
            "tms.settings",
            "tms.server.copied_settings",
            "tms.server.stores",
            "tms.transactions",
        }
    ),
    "tms.server.copied_settings": frozenset(
        {
            "tables",
            "tms.core",
            "tms.metadata",
            "tms.namespaces",
            "tms.security",
            "tms.server.stores",
        }
    ),
    "tms.server.backups": frozenset(
        {"tables", "tms.core", "tms.server.node", "tms.server.stores", "tms.settings"}
    ),
    "tms.server": frozenset(),
    "tms.server.stores": frozenset(
        {"cleanup", "tables", "tms.core", "tms.metadata", "tms.settings"}
    ),
    "tms.server.serving": frozenset(
        {
            "api.app",
            "api.cluster",
            "api.console",
            "api.http",
            "tms.client",
            "tms.cluster",
            "tms.core",
            "tms.metadata",
            "tms.namespaces",
            "tms.outgoing",
            "tms.registry",
            "tms.security",
            "tms.server.backups",
            "tms.server.gc_schedule",
            "tms.server.loop_steps",
            "tms.server.node",
            "tms.server.opening",
            "tms.server.registry_part",
            "tms.server.security_part",
            "tms.server.shard",
            "tms.server.sharded",
            "tms.server.stores",
            "tms.settings",
            "tms.sharding",
        }
    ),
    "tms.server.security_part": frozenset(
        {
            "api.http",
            "tms.core",
            "tms.metadata",
            "tms.outgoing",
            "tms.registry",
            "tms.security",
            "tms.settings",
            "tms.server.stores",
        }
    ),
    "tms.server.registry_part": frozenset(
        {
            "tms.server.security_part",
            "api.cluster",
            "api.http",
            "api.registry",
            "tms.client",
            "tms.core",
            "tms.metadata",
            "tms.registry",
            "tms.settings",
            "tms.server.stores",
        }
    ),
    "tms.server.gc_schedule": frozenset(),
    "tms.server.loop_steps": frozenset(),
    "tms.server.shard": frozenset(
        {
            "cleanup",
            "tables",
            "tms.core",
            "tms.messaging",
            "tms.namespaces",
            "tms.server.stores",
            "tms.settings",
            "tms.transactions",
        }
    ),
    "tms.server.node": frozenset(
        {
            "cleanup",
            "tables",
            "tms.core",
            "tms.messaging",
            "tms.metadata",
            "tms.namespaces",
            "tms.registry",
            "tms.server.shard",
            "tms.server.stores",
            "tms.settings",
            "tms.transactions",
        }
    ),
    "tms.cli": frozenset(
        {"tms.client", "tms.core", "tms.metadata", "tms.security", "tms.settings", "tms.wire"}
    ),
    "tms.__main__": frozenset({"tms.cli"}),
    "tms.aio": frozenset({"tms.client"}),
    "tms.sqlite": frozenset({"tms.client", "tms.core"}),
    "tms.postgresql": frozenset({"tms.client", "tms.core"}),
    "tms": frozenset({"tms.aio", "tms.client", "tms.core"}),
}
LAZY_ARROWS: dict[str, frozenset[str]] = {
    "api.http": frozenset({"tms.arrow"}),
    "tms.client": frozenset({"tms.arrow", "tms.server.node", "tms.serdes"}),
    "tms.spark": frozenset({"tms.server.jobs", "tms.settings"}),
    "tms.cli": frozenset(
        {"tms.serdes", "tms.server.jobs", "tms.server.serving", "tms.spark", "tms.server.stores"}
    ),
}
LAYERS = sorted(ARROWS, key=len, reverse=True)

PLAIN_NAMES = frozenset({"__version__"})
"""The names of `tms` itself that any layer may import. Its others would load the client."""

WITHOUT_EXTRAS = ("tms", "tms.aio", "tms.core", "tms.wire", "tms.outgoing", "tms.client", "tms.cli")
"""The modules that work if the package is installed without its extras."""
SERVER_COMMANDS = ("tms.cli.serve", "tms.cli.doctor")
NEEDS_SERVER_EXTRA = frozenset(
    {
        *SERVER_COMMANDS,
        "tms.server.backups",
        "tms.server.copied_settings",
        "tms.server.jobs",
        "tms.server.registry_part",
        "tms.server.security_part",
        "tms.server.serving",
        "tms.settings",
        "tms.server.stores",
        "tms.server.node",
        "tms.server.opening",
        "tms.server.shard",
        "tms.server.sharded",
    }
)
"""The modules that are loaded only where the server's extra is installed."""

MODULES = {source.module for source in sources(*PRODUCT)}


def layer_of(module: str) -> str | None:
    """Return the layer of a module of ours; None for foreign modules and those without a layer."""
    if module == "tms":
        return module
    return next((layer for layer in LAYERS if f"{module}.".startswith(f"{layer}.")), None)


def is_ours(module: str) -> bool:
    """Whether `module` is part of this project."""
    return module.partition(".")[0] in PRODUCT


def is_allowed(source_layer: str, imported: Import) -> bool:
    """Whether a file in `source_layer` may import this module of ours."""
    if imported.module == "tms" and imported.name in PLAIN_NAMES:
        return True
    whole = f"{imported.module}.{imported.name}"
    target = layer_of(whole if whole in MODULES else imported.module)
    if target is None:
        return False
    allowed = {source_layer} | ARROWS[source_layer]
    if imported.lazy:
        allowed |= LAZY_ARROWS.get(source_layer, frozenset())
    return target in allowed or imported.module in allowed


def wrong_imports(files: Iterable[Source]) -> list[str]:
    """Return a line for each forbidden import: its place, its layer, and what it imports."""
    return [
        f"{source.place}:{imported.line}: {layer} must not import {imported.module}"
        f"{f' ({imported.name})' if imported.name else ''}"
        f"{', not even' if imported.lazy else ''}{' inside a function' if imported.lazy else ''}"
        for source in files
        if (layer := layer_of(source.module)) is not None
        for imported in imports(source.tree)
        if is_ours(imported.module) and not is_allowed(layer, imported)
    ]


def test_imports_go_one_way() -> None:
    assert wrong_imports(sources(*PRODUCT)) == []


def test_files_import_each_other_in_no_circle() -> None:
    assert circle(sources(*PRODUCT)) == ()


@pytest.mark.parametrize(
    "back",
    [
        "from api.http.x import X",
        "from api.http import x",
        "import api.http.x",
        "def f():\n    from api.http.x import X",
        "if TYPE_CHECKING:\n    from api.http.x import X",
    ],
)
def test_a_circle_is_found(back: str) -> None:
    code = {"x": "from api.http.y import Y", "y": "from api.http.z import Z", "z": back}
    files = [Source(ROOT / f"api/http/{name}.py", text) for name, text in code.items()]

    assert set(circle(files)) == {"api.http.x", "api.http.y", "api.http.z"}
    assert circle(files[:2]) == ()


def test_every_module_has_a_layer() -> None:
    without = [s.place for s in sources(*PRODUCT) if not _has_layer(s.module)]

    assert without == [], "give each a layer and its arrows, here and in docs/ARCHITECTURE.md"


def _has_layer(module: str) -> bool:
    layer = layer_of(module)
    # `tms` is a layer of one file: a new module beside it needs a layer of its own.
    return layer is not None and (layer != "tms" or module == "tms")


@pytest.mark.parametrize(
    ("place", "code", "is_right"),
    [
        ("tms/core/x.py", "from tms.wire import bodies", False),
        ("tms/messaging/x.py", "import tables.keys", False),
        ("tms/messaging/x.py", "from tms.core.services.commits import Carrier", True),
        ("api/http/x.py", "from tms import __version__", True),
        ("api/http/x.py", "from tms import connect", False),
        ("api/http/x.py", "from api.openapi.parts import TEXT", False),
        ("api/resources/x.py", "from api.http.exchange import Exchange", True),
        ("api/cluster/x.py", "from api.resources import health", False),
        ("api/http/x.py", "from tms.server import node", False),
        ("api/http/x.py", "def f():\n    from tables.keys import prefix", False),
        ("api/http/x.py", "if TYPE_CHECKING:\n    from tms.messaging import service", False),
        ("tms/client/x.py", "from tms.server.node import open_services", False),
        ("tms/client/x.py", "def f():\n    from tms.server.node import open_services", True),
        ("tms/client/x.py", "def f():\n    from tables.keys import prefix", False),
        ("tms/server/shard.py", "from tables.store_tables import StoreTables", True),
        ("tms/server/shard.py", "from tms.registry.log.schema_log import WayToLog", False),
        ("tables/x.py", "from tms.core.values.topic import TopicId", True),
        ("tables/x.py", "from api.app import create_app", False),
    ],
)
def test_the_rule_tells_right_from_wrong(place: str, code: str, *, is_right: bool) -> None:
    source = Source(ROOT / place, code)

    assert is_right == (not wrong_imports([source]))


def test_modules_are_imported_by_statement_save_in_the_package_itself() -> None:
    calls = [
        f"{source.place}:{node.lineno}"
        for source in sources(*PRODUCT)
        if source.module != "tms"
        for node in nodes(source.tree)
        if isinstance(node, ast.Name | ast.Attribute)
        and (node.id if isinstance(node, ast.Name) else node.attr)
        in ("import_module", "__import__")
    ]

    assert calls == [], "the tests here would not see what is imported so"


def test_what_works_without_extras_imports_only_what_is_always_installed() -> None:
    pyproject = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    always = {
        re.split(r"[^A-Za-z0-9_-]", requirement)[0].replace("-", "_")
        for requirement in pyproject["project"]["dependencies"]
    }
    files = [
        source
        for source in sources("tms")
        if layer_of(source.module) in WITHOUT_EXTRAS and source.module not in SERVER_COMMANDS
    ]
    strangers = [
        f"{source.place}:{imported.line}: {imported.module}"
        for source in files
        for imported in imports(source.tree)
        if not is_ours(imported.module)
        and (top := imported.module.partition(".")[0]) not in always
        and top not in sys.stdlib_module_names
    ]
    server_only = [
        f"{source.place}:{imported.line}: {imported.module}"
        for source in files
        for imported in imports(source.tree)
        if not imported.lazy
        and {imported.module, f"{imported.module}.{imported.name}"} & NEEDS_SERVER_EXTRA
    ]

    assert strangers == []
    assert server_only == []


def test_the_architecture_page_lists_these_arrows() -> None:
    page = (ROOT / "docs/ARCHITECTURE.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `([\w.]+)` \| .* \| (.*) ?\|$", page, re.MULTILINE)
    names = re.compile(r"`([\w.]+)`")
    told = {
        layer: [set(names.findall(part)) for part in (*cell.split("; inside a function"), "")[:2]]
        for layer, cell in rows
    }
    with_files = {layer_of(source.module) for source in sources(*PRODUCT)}

    assert told == {
        layer: [set(ARROWS[layer]), set(LAZY_ARROWS.get(layer, ()))]
        for layer in ARROWS
        if layer in with_files
    }
