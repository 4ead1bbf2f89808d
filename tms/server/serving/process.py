"""Runs a server: REST on the services that `tms.server.node` opens, alone or as one of a cluster.

In a cluster a server leads shards, or the whole store, for some time (`tms.cluster.member`), and
forwards requests for others to their leaders (`api.cluster.routing`). The schema registry is served
in any case (`tms.server.registry_part`), even by a server that has nothing else.
"""

import asyncio
import logging
import sys
from collections.abc import Coroutine, Iterator
from contextlib import AsyncExitStack, contextmanager
from functools import partial
from logging import Formatter
from typing import Any

import uvloop

from tms.cluster.instances import next_instance_id
from tms.core.runtime import extras
from tms.core.runtime.log_format import TEXT, JsonFormatter
from tms.core.runtime.trusted_clock import trusted
from tms.core.values.caller import AUDIT_TOPIC
from tms.metadata.interface import MetadataStore
from tms.metadata.patience import once_reached
from tms.server.backups import open_backups
from tms.server.gc_schedule import collected_by_clock
from tms.server.loop_steps import OF_PROCESS
from tms.server.opening import open_served
from tms.server.registry_part import open_registry
from tms.server.security_part import read_security, read_tls
from tms.server.serving.cluster import serve_in_cluster
from tms.server.serving.parts import Basis, OnStarted, process_metrics
from tms.server.serving.service_manager import ServiceManager
from tms.server.stores import importing, keep_reserve, open_metadata
from tms.settings import Settings

with importing("api"):
    from api.app import create_app, create_storeless
    from api.cluster.routing import route_alone
    from api.http.access_log import AccessLog
    from api.http.listener.server import serve as serve_app
    from api.http.observers import OF_PROCESS as OBSERVERS

_SWITCH_INTERVAL_S = 0.0005
"""How long a thread may hold Python's lock while another one waits. With CPython's 5 ms a flush in
its thread waits that long for a busy event loop; this value raises publish throughput by an eighth.
"""

_log = logging.getLogger(__name__)


def serve(settings: Settings, on_started: OnStarted) -> None:
    """Serve REST as `settings` say until SIGTERM or SIGINT, then finish accepted requests.

    Raises as `open_tables` does, and `OSError` if it cannot listen on the address; in a cluster
    also as `open_metadata` and `Member.open` do, and `StoreUnavailable` if the gateway keeps idle
    connections. Raises `ValueError` if the server would let strangers in, or TLS cannot use its
    files.
    """
    settings.check_safe(*settings.listened_hosts)
    serve_kind = serve_in_cluster if settings.advertise else _serve
    if settings.registry_log:
        serve_kind = _serve_registry
    tls, clock = read_tls(settings), trusted(None, settings.limits())
    security = read_security(settings, clock)
    urls: list[str] = []
    manager = ServiceManager()

    def started(url: str) -> None:
        urls.append(url)
        if len(urls) == 1 + bool(settings.registry_listen):
            on_started(*urls)
            manager.serving()

    with _spans(settings):
        _run(settings, serve_kind(Basis(settings, clock, tls, security), started))


def _run(settings: Settings, serving: Coroutine[Any, Any, None]) -> None:
    handler = logging.StreamHandler()
    handler.setFormatter(JsonFormatter() if settings.log_format == "json" else Formatter(TEXT))
    logging.basicConfig(level=settings.log_level.upper(), handlers=[handler])
    if settings.access_log:
        OBSERVERS.attach(AccessLog())
    sys.setswitchinterval(_SWITCH_INTERVAL_S)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_with_few_pauses(serving))


@contextmanager
def _spans(settings: Settings) -> Iterator[None]:
    """Send spans if the settings say so. Raises `ModuleNotFoundError` without the extra."""
    if not settings.otel:
        yield
        return
    try:
        from api.http.spans import Spans  # noqa: PLC0415  an extra
    except ModuleNotFoundError as error:
        raise extras.missing("The setting otel needs OpenTelemetry", error, "otel") from None
    spans = Spans()
    OBSERVERS.attach(spans)
    try:
        yield
    finally:
        spans.close()


async def _with_few_pauses(serving: Coroutine[Any, Any, None]) -> None:
    with OF_PROCESS.measured(), collected_by_clock(around=OF_PROCESS.collecting):
        await serving


async def _serve(basis: Basis, on_started: OnStarted) -> None:
    settings, registry = basis.settings, process_metrics()
    async with AsyncExitStack() as stack:
        opened = await open_registry(settings, basis.clock, stack)
        services = await open_served(
            settings,
            basis.clock,
            registry,
            values=None if opened is None else opened.values,
            may_block_loop=True,
        )
        stack.push_async_callback(services.close)
        keep_reserve(settings.store, settings.disk_reserve_bytes)
        parts = await basis.open(stack, opened, services.namespaces.metadata)
        parts.publish_audit(services.reaching(AUDIT_TOPIC))
        backups = await open_backups(settings, services, registry, basis.clock)
        stack.push_async_callback(backups.close)
        options = parts.options(registry, sharding=services.sharding)
        options["backups"] = backups
        app = parts.with_console(create_app(services, settings.limits(), **options))
        if services.sharding is not None:
            route_alone(app, services.sharding, services.in_shard)
        await stack.enter_async_context(app.context.watch.at_work())
        if parts.schemas is not None:
            parts.schemas.register(registry)
            parts.schemas.attach(services.reaching(settings.registry_topic_id))
            parts.schemas.elect()
        await serve_app(
            parts.listeners(parts.with_schemas(app)),
            limits=settings.limits(),
            on_started=on_started,
            on_stopping=services.stop_waiting,
            grace_s=settings.stop_grace_s,
            tls=parts.tls.own,
        )
    _log.info("stopped; the store is closed")


async def _serve_registry(basis: Basis, on_started: OnStarted) -> None:
    settings, registry = basis.settings, process_metrics()
    async with AsyncExitStack() as stack:
        opened = await open_registry(settings, basis.clock, stack)
        store = await _shared_metadata(settings, stack) if basis.security is not None else None
        number = None if store is None else await once_reached(partial(next_instance_id, store))
        parts = await basis.open(stack, opened, store, number)
        schemas = parts.schemas
        assert schemas is not None
        schemas.register(registry)
        app = create_storeless(settings.limits(), schemas.check_ready, **parts.options(registry))
        schemas.attach_to(settings.registry_log)
        schemas.elect()
        await serve_app(
            parts.listeners(parts.with_schemas(app)),
            limits=settings.limits(),
            on_started=on_started,
            on_stopping=_nothing,
            grace_s=settings.stop_grace_s,
            tls=parts.tls.own,
        )
    _log.info("stopped; this server no longer serves schemas")


async def _shared_metadata(settings: Settings, stack: AsyncExitStack) -> MetadataStore | None:
    """Return the metadata store that settings name, open until the stack ends; None without one."""
    if not settings.has_shared_metadata:
        return None
    store = await open_metadata(settings.metadata)
    stack.push_async_callback(store.close)
    return store


def _nothing() -> None:
    """Do nothing."""
