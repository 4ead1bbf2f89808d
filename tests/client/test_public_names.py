"""The library's public interface: all names are listed, documented, and cheap to import."""

import inspect
import subprocess
import sys
from collections.abc import Callable
from types import ModuleType

import pytest

import tms
import tms.aio
import tms.client
from tests.servers.server_process import ROOT, environment
from tms.core.errors import class_of
from tms.core.errors.catalogue import CATALOGUE
from tms.core.services.transactions import AsyncTransactions

SERVER_PACKAGES = (
    "starlette",
    "plyvel",
    "plyvel_next",
    "prometheus_client",
    "pydantic_settings",
    "sortedcontainers",
    "cachetools",
    "tables",
    "api",
    "tms.server.node",
    "tms.server.stores",
    "tms.messaging",
)


@pytest.mark.parametrize("module", [tms, tms.aio, tms.client])
def test_all_names_are_listed_in_order_and_exist(module: ModuleType) -> None:
    assert list(module.__all__) == sorted(module.__all__)
    for name in module.__all__:
        assert getattr(module, name) is not None
    assert set(module.__all__) <= set(dir(module))


def test_the_package_offers_what_the_client_library_does() -> None:
    own = {name for name in tms.client.__all__ if "sync" not in name and name != "Start"}

    assert own <= set(tms.__all__)
    with pytest.raises(AttributeError, match="nothing"):
        tms.nothing  # noqa: B018  # type: ignore[attr-defined]


def test_every_error_of_the_catalogue_is_offered() -> None:
    for code in CATALOGUE:
        assert getattr(tms, class_of(code).__name__) is class_of(code)


@pytest.mark.parametrize("module", [tms, tms.aio, tms.client])
def test_every_name_is_documented_with_its_methods(module: ModuleType) -> None:
    assert module.__doc__
    for name in module.__all__:
        value = getattr(module, name)
        if isinstance(value, str) or name == "Start":
            continue
        assert inspect.getdoc(value), name
        if inspect.isclass(value) and value.__module__.startswith("tms.client"):
            for method, member in vars(value).items():
                if not method.startswith("_"):
                    assert inspect.getdoc(member), f"{name}.{method}"


GIVEN = ("function", "handler", "participants", "acks")


@pytest.mark.parametrize(
    ("plain", "with_await"),
    [
        (tms.Client, tms.aio.AsyncClient),
        (tms.Topic, tms.aio.AsyncTopic),
        (tms.Subscription, tms.aio.AsyncSubscription),
        (tms.TopicGroup, tms.aio.AsyncTopicGroup),
        (tms.GroupWorker, tms.aio.AsyncGroupWorker),
        (tms.TransactionContext, tms.aio.AsyncTransactionContext),
        (tms.Transactions, AsyncTransactions),
    ],
)
def test_a_class_is_the_same_with_await_and_without(plain: type, with_await: type) -> None:
    def parameters(method: Callable[..., object]) -> list[tuple[object, ...]]:
        given = inspect.signature(method).parameters.values()
        # Callables of the program have to return something else, and messages have the client's
        # form. Servers name the caller to their services; programs do not.
        return [
            (each.name, each.kind, each.default, each.name in GIVEN or each.annotation)
            for each in given
            if each.name != "caller"
        ]

    for name, method in vars(plain).items():
        if inspect.isfunction(method) and not name.startswith("_"):
            assert parameters(getattr(with_await, name)) == parameters(method), name
        elif isinstance(method, property):
            assert isinstance(getattr(with_await, name), property), name


def _loaded_by(code: str) -> set[str]:
    told = subprocess.run(
        [sys.executable, "-c", f"import sys; {code}; print(*sys.modules)"],
        capture_output=True,
        text=True,
        check=True,
        env=environment(),
        cwd=ROOT,
    )
    return set(told.stdout.split())


def test_importing_the_package_loads_next_to_nothing() -> None:
    loaded = _loaded_by("import tms; tms.__version__")

    assert not loaded & {"httpx", "anyio", "fastavro", "typer", "rich", "tms.client", "tms.core"}


@pytest.mark.parametrize(
    "code",
    [
        "import tms.client, tms.aio; tms.connect('http://localhost:1').close()",
        "import tms.cli.main",
    ],
)
def test_the_client_loads_no_package_of_the_server(code: str) -> None:
    loaded = _loaded_by(code)

    assert "tms.client" in loaded
    assert "httpx" not in loaded
    assert not loaded & set(SERVER_PACKAGES)
