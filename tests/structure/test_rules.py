"""Rules about constructs that belong in one place only."""

import ast
import re

import pytest

from tests.structure.sources import ALL, PRODUCT, imports, nodes, sources

TTL_PLACES = {"tms/core/values/topic.py", "cleanup/inspection.py"}
"""Files that implement expiry (`TopicMetadata.first_live_ms`, `dies_ms`), or show a topic."""


def test_only_a_topic_says_what_has_expired() -> None:
    places = {
        source.place
        for source in sources(*PRODUCT)
        for node in nodes(source.tree)
        if isinstance(node, ast.Attribute) and node.attr == "ttl_s"
    }

    assert places == TTL_PLACES


INT_PLACES = {
    "api/http/protocol/numbers.py",
    "api/http/protocol/framing.py",  # 15 hexadecimal digits
    "api/http/door/endings.py",  # the expiry of a certificate
    "api/registry/document.py",  # codes of its own
    "api/registry/requests.py",  # 10 digits and a sign
}


def test_digits_of_requests_become_numbers_in_places_that_count_them() -> None:
    """`int` takes quadratic time in the number of digits, and raises if there are very many."""
    places = {
        source.place
        for source in sources("api")
        for node in nodes(source.tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "int"
    }

    assert places == INT_PLACES


def test_cookies_are_read_without_the_standard_library() -> None:
    """Its parser is quadratic in some Pythons that we support (CVE-2024-7592).

    `cookies` of Starlette's requests uses it.
    """
    users = [
        source.place
        for source in sources(*PRODUCT)
        if any(
            each.module.startswith("http.cookies")
            or (each.module, each.name) == ("http", "cookies")
            for each in imports(source.tree)
        )
    ]
    asking = [
        source.place
        for source in sources("api")
        for node in nodes(source.tree)
        if isinstance(node, ast.Attribute) and node.attr == "cookies"
    ]

    assert users + asking == []


CLOCK = "tms/core/runtime/clock.py"
WALLS = {"time", "time_ns", "clock_gettime", "clock_gettime_ns", "now", "utcnow", "today"}
"""Functions of `time`, and methods of `datetime` and `date`, that read a clock which may step. What
took how long is measured by `perf_counter` and `monotonic`, which nobody sets."""


def _clocks_read(tree: ast.AST) -> set[str]:
    modules = {"time", "datetime", "date"}
    read = {
        f"{node.value.id}.{node.attr}"
        for node in nodes(tree)
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id in modules
        and node.attr in WALLS
    }
    imported = {
        f"time.{name.name}"
        for node in nodes(tree)
        if isinstance(node, ast.ImportFrom) and node.module == "time"
        for name in node.names
        if name.name in WALLS
    }
    return read | imported


def test_only_the_clock_reads_a_clock_that_may_be_set() -> None:
    places = {source.place for source in sources(*PRODUCT) if _clocks_read(source.tree)}

    assert places == {CLOCK}


def test_what_goes_by_the_wall_alone_is_not_a_server() -> None:
    """A server's parts get the server's clock, which does not trust a step at once."""
    places = {
        source.place
        for source in sources(*PRODUCT)
        for node in nodes(source.tree)
        if isinstance(node, ast.Name) and node.id == "SystemClock"
    }
    alone = {place for place in places if place.startswith(("tms/cli/", "tms/metadata/"))}

    assert places - alone == {
        CLOCK,
        "tables/hbase/open_marks.py",
        "tms/cluster/presence.py",
        "tms/core/services/mark.py",
        "tms/core/runtime/supervision.py",  # reports that a task failed
        "tms/core/runtime/trusted_clock.py",
        "tms/server/jobs.py",
        "tms/server/stores.py",
    }


def test_one_file_imports_what_binds_leveldb() -> None:
    """Which of the two packages it imports depends on the version of Python."""
    places = {
        source.place
        for source in sources(*ALL)
        for imported in imports(source.tree)
        if imported.module.partition(".")[0] in ("plyvel", "plyvel_next")
    }

    assert places == {"tables/leveldb_binding.py"}


def test_what_a_caller_may_leave_is_waited_for_in_one_way() -> None:
    """`asyncio.shield` leaves an error that nobody retrieves, and asyncio logs it."""
    shields = [each.place for each in sources(*PRODUCT) if "asyncio.shield" in each.text]

    assert shields == ["tms/core/runtime/shared_work.py"]


def test_who_waits_for_a_cancelled_task_can_be_cancelled() -> None:
    """`suppress` around it hides the waiter's own cancellation; `asyncio.gather` does not."""
    hides = [each.place for each in sources(*PRODUCT) if "suppress(asyncio.Canc" in each.text]

    assert hides == []


def test_rows_of_topics_are_changed_by_compare_and_put_alone() -> None:
    """A cleanup pass reads no row as long as `Store.exchanges` says that none has changed.

    It allows for rows that it removed itself, by `StoreMetadataTable.forget`.
    """
    others = [
        each.place
        for each in sources(*PRODUCT)
        if re.search(r"\.(put|delete|put_rows|delete_rows)\(\s*METADATA", each.text)
    ]

    assert others == ["tables/metadata_table.py"]


COMMITTED_SIGNATURES_MAX = 8


def test_few_signatures_say_which_messages_a_reader_is_given() -> None:
    """A poll's options are in `tms/client/reading/poll.py`; services take `Isolation`."""
    places = [
        f"{source.place}:{node.lineno} {node.name}"
        for source in sources(*PRODUCT)
        for node in nodes(source.tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        for taken in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)
        if taken.arg == "committed" and taken.annotation is not None
        if ast.unparse(taken.annotation) == "bool"
    ]

    assert len(places) <= COMMITTED_SIGNATURES_MAX, places


SCHEMA_TYPES = "tms/core/values/schema_types.py"
TABLES_OF_TYPES = {
    SCHEMA_TYPES,
    "tms/registry/checking/kinds.py",
    "tms/serdes/compiling.py",
    "tms/spark/typed/forms.py",
}
TYPES = {"AVRO", "JSON", "PROTOBUF"}


def _names_of_types(tree: ast.Module) -> set[str]:
    """Return the expressions that name a schema type in a file: string literals and constants."""
    named = {
        imported.name
        for imported in imports(tree)
        if imported.module.startswith("tms.core.") and imported.name in TYPES
    }
    return {f"'{name}'" for name in TYPES} | {str(name) for name in named}


def asks_by_type(tree: ast.Module) -> bool:
    """Whether a file compares with a type's name, or has a table or set keyed by type names."""
    names = _names_of_types(tree)
    asked: list[ast.AST | None] = []
    for node in nodes(tree):
        match node:
            case ast.Compare(left=left, comparators=others):
                asked += [left, *others]
            case ast.Dict(keys=keys):
                asked += keys
            case ast.MatchValue(value=value):
                asked.append(value)
            case ast.Set(elts=elements) | ast.Tuple(elts=elements) | ast.List(elts=elements):
                asked += elements
    return any(each is not None and ast.unparse(each) in names for each in asked)


def test_only_tables_ask_for_the_type_of_a_schema() -> None:
    """So a fourth type is one row in each of these tables, and no other file knows of it."""
    places = {source.place for source in sources(*PRODUCT) if asks_by_type(source.tree)}

    assert places == TABLES_OF_TYPES - {SCHEMA_TYPES}


@pytest.mark.parametrize(
    ("code", "asks"),
    [
        ("from tms.core.values.schema_types import AVRO\nif kind == AVRO: pass", True),
        ("if kind != 'JSON': pass", True),
        ("from tms.core.values.schema_types import JSON\nkind in (JSON, x)", True),
        ("forms = {'PROTOBUF': 1}", True),
        ("match kind:\n    case 'AVRO': pass", True),
        ("from tms.core.values.schema_types import AVRO\ndef f(kind: str = AVRO): pass", False),
        ("from tms.wire.avro_bodies import AVRO\nx = {'1': AVRO} if y is AVRO else z", False),
    ],
)
def test_the_check_of_types_sees_them(code: str, asks: bool) -> None:  # noqa: FBT001
    assert asks_by_type(ast.parse(code)) is asks


CHANGES = {
    *(("tms/server/registry_part.py", name) for name in ("_remote", "_url", "_reading")),
    *(("tms/server/backups.py", name) for name in ("_task", "_last")),
}
"""Attributes that a part of a server has at some times only; they are not other parts."""


def _late_parts(tree: ast.AST) -> set[str]:
    """Return the places that set an attribute of another part after it was made, or replace one."""
    found = set()
    for node in nodes(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            if not (isinstance(node.value, ast.Name) and node.value.id == "self"):
                found.add(ast.unparse(node))
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Attribute):
            if isinstance(node.value, ast.Constant) and node.value.value is None:
                found.add(node.target.attr)
        elif isinstance(node, ast.Call) and re.fullmatch(r".*cast\(.*, None\)", ast.unparse(node)):
            found.add(ast.unparse(node))
    return found


def test_the_parts_of_a_server_are_made_once() -> None:
    """Each part is made from earlier ones, so code that has a part may use it at once."""
    late = {
        (source.place, name)
        for source in sources("tms/server")
        for name in _late_parts(source.tree)
    }

    assert late == CHANGES


@pytest.mark.parametrize(
    ("code", "late"),
    [
        ("part.sealer = sealer", "part.sealer"),
        ("self.access.trail.audit = self.other = audit", "self.access.trail.audit"),
        ("part.a, b = 1, 2", "part.a"),
        ("self._sealer: Sealer | None = None", "_sealer"),
        ("part = cast('Part', None)", "cast('Part', None)"),
        ("self._sealer = sealer", None),
        ("elsewhere = cast('Part', other)", None),
    ],
)
def test_the_check_of_late_parts_sees_them(code: str, late: str | None) -> None:
    assert _late_parts(ast.parse(code)) == ({late} if late else set())
