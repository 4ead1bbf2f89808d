"""Settings: compatibility and normalization (`/config`), and the mode."""

from collections.abc import Callable
from functools import partial
from typing import TypeVar

import msgspec
from msgspec import UNSET

from api.http.exchange import Exchange
from api.http.operation import Operation
from api.http.request_body import SMALL_BODY_BYTES_MAX
from api.registry import parameters as p
from api.registry.requests import Handlers, answer, flag, read_json
from api.registry.resources import in_context, writable
from tms.registry import setting_commands as commands
from tms.registry.state.decision import Decided
from tms.registry.state.knowledge import Knowledge
from tms.registry.state.records import Purged
from tms.registry.state.refusal import INVALID_MODE, RegistryError
from tms.registry.state.registry_state import State
from tms.registry.state.settings import Config
from tms.registry.state.subjects import DEFAULT_SCOPE
from tms.security.resources import Action, subject_resource
from tms.wire.registry_bodies import ConfigBody, ConfigRequest, ConfigSetBody, ModeBody

A = TypeVar("A")


class _ModeRequest(msgspec.Struct):
    mode: str | None = None


class SettingHandlers(Handlers):
    """Handlers of settings."""

    async def config(self, exchange: Exchange) -> None:
        """Answer with the settings of a scope."""
        look = _look(exchange, commands.config_of)
        await answer(exchange, _shown(await self._registry.list(look)))

    async def set_config(self, exchange: Exchange) -> None:
        """Change settings."""
        request = await read_json(exchange, ConfigRequest, SMALL_BODY_BYTES_MAX)
        scope, change = _scope(exchange), _change(request)
        config = await self._registry.write(
            lambda known: commands.set_config(known.state, scope, change)
        )
        await answer(exchange, ConfigSetBody(**msgspec.structs.asdict(config)))

    async def delete_config(self, exchange: Exchange) -> None:
        """Remove settings."""
        scope = _scope(exchange)
        was = await self._registry.write(lambda known: commands.delete_config(known.state, scope))
        await answer(exchange, _shown(was))

    async def mode(self, exchange: Exchange) -> None:
        """Answer with the mode of a scope."""
        look = _look(exchange, commands.mode_of)
        await answer(exchange, ModeBody(await self._registry.list(look)))

    async def set_mode(self, exchange: Exchange) -> None:
        """Set the mode."""
        request = await read_json(exchange, _ModeRequest, SMALL_BODY_BYTES_MAX)
        if request.mode is None:
            raise RegistryError(INVALID_MODE)
        scope, mode, force = _scope(exchange), request.mode, flag(exchange, "force")
        command = writable(
            exchange,
            scope,
            lambda known: commands.set_mode(known.state, scope, mode, force=force),
        )
        await answer(exchange, ModeBody(await self._registry.write(command)))

    async def delete_mode(self, exchange: Exchange) -> None:
        """Remove the mode."""
        scope, recursive = _scope(exchange), flag(exchange, "recursive")

        def command(knowledge: Knowledge) -> Decided[str]:
            decided = commands.delete_mode(knowledge.state, scope, recursive=recursive)
            for record in decided.records if exchange.admission is not None else ():
                if isinstance(record, Purged):
                    resource = subject_resource(record.key.subject or None)
                    exchange.check_access(Action.COMPATIBILITY, resource)
            return decided

        was = await self._registry.write(command)
        await answer(exchange, ModeBody(was))

    def operations(self) -> tuple[Operation, ...]:
        """Return the table."""
        return (
            *self._config_rows("", "of the default context", ()),
            *self._config_rows("/{subject}", "for a subject", ("40401", "40408", "42208")),
            *self._mode_rows("", "of the default context", ()),
            *self._mode_rows("/{subject}", "for a subject", ("40401", "40409", "42208")),
        )

    def _config_rows(
        self, below: str, where: str, errors: tuple[str, ...]
    ) -> tuple[Operation, ...]:
        get, put, delete = _rows("config", below)
        return (
            get(
                handler=self.config,
                summary=f"The settings {where}",
                description="The answer has the compatibility level even if a wider scope sets it.",
                success="The settings.",
                answer=p.body("Config"),
                errors=errors,
            ),
            put(
                handler=self.set_config,
                summary=f"Change settings {where}",
                description="Settings that are missing in the body do not change; null removes a "
                "setting.",
                request=p.body("ConfigChange"),
                success="All settings of this scope.",
                answer=p.body("ConfigSet"),
                errors=(*errors, "42203", "42205"),
            ),
            delete(
                handler=self.delete_config,
                summary=f"Remove the settings {where}",
                success="The removed settings.",
                answer=p.body("Config"),
                errors=(*errors, "42205"),
            ),
        )

    def _mode_rows(self, below: str, where: str, errors: tuple[str, ...]) -> tuple[Operation, ...]:
        get, put, delete = (partial(row, answer=p.body("Mode")) for row in _rows("mode", below))
        return (
            get(
                handler=self.mode,
                summary=f"The mode {where}",
                description="The mode says which changes are allowed.",
                success="The mode.",
                errors=errors,
            ),
            put(
                handler=self.set_mode,
                summary=f"Set the mode {where}",
                description="The modes are READWRITE, READONLY, READONLY_OVERRIDE and IMPORT. "
                "IMPORT needs a scope without schemas, or `force`; it permanently deletes "
                "soft-deleted versions, so the caller must be allowed to delete them.",
                query=(p.FORCE,),
                request=p.body("Mode"),
                success="The new mode.",
                errors=(*errors, "42204", "42205"),
            ),
            delete(
                handler=self.delete_mode,
                query=(p.RECURSIVE,),
                summary=f"Remove the mode {where}",
                success="The removed mode.",
                errors=errors,
            ),
        )


def _rows(
    kind: str, below: str
) -> tuple[partial[Operation], partial[Operation], partial[Operation]]:
    """Return partial rows that show, set and delete a scope's setting."""
    name = f"subject_{kind}" if below else kind
    place = {"path": f"/{kind}{below}", "tag": kind.capitalize()}
    change = partial(p.ROW, action=Action.COMPATIBILITY, **place)
    wider = "The value of a wider scope applies again."
    return (
        partial(p.GET, name=name, query=(p.DEFAULT_TO_GLOBAL,), **place),
        partial(change, name=f"set_{name}", method="PUT"),
        partial(change, name=f"delete_{name}", method="DELETE", description=wider),
    )


def _look(exchange: Exchange, of: Callable[..., A]) -> Callable[[State], A]:
    """Return a look at the setting that applies in the scope of a request."""
    default_to_global = flag(exchange, "defaultToGlobal")
    return partial(of, name=_scope(exchange), default_to_global=default_to_global)


def _scope(exchange: Exchange) -> str:
    return in_context(exchange.names, exchange.names.get("subject", DEFAULT_SCOPE))


def _change(request: ConfigRequest) -> dict[str, object]:
    """Return the changes of a request, in which the level has two names."""
    fields = msgspec.structs.asdict(request)
    level = fields.pop("compatibility_level")
    if fields["compatibility"] is UNSET:
        fields["compatibility"] = level
    return {name: value for name, value in fields.items() if value is not UNSET}


def _shown(config: Config) -> ConfigBody:
    fields = msgspec.structs.asdict(config)
    return ConfigBody(compatibility_level=fields.pop("compatibility"), **fields)
