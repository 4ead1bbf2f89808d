"""Namespaces over REST.

Setting the same twice does the same as once, so it is repeated; a deletion is not.
"""

from collections.abc import Sequence

from tms.client.remote.calls import JSON, Remote
from tms.core.values.namespaces import Namespace, NamespaceSettings
from tms.core.values.topic import check_namespace
from tms.wire.json_namespaces import decode_namespace, decode_namespaces, encode_settings

_PATH = "v1/namespaces"


class RemoteNamespaces(Remote):
    """The namespaces of a server, as `tms.core.values.namespaces.AsyncNamespaces`."""

    async def namespaces(self) -> Sequence[Namespace]:
        """Return the declared namespaces in the order of their names."""
        return await self._get(_PATH, decode_namespaces)

    async def namespace(self, name: str) -> Namespace:
        """Return a namespace, even if it is not declared."""
        return await self._get(_path(name), decode_namespace)

    async def declare(self, name: str, settings: NamespaceSettings) -> Namespace:
        """Replace the settings of a namespace. Raises `NoMetadataStore`."""
        body = encode_settings(settings)
        return decode_namespace(await self._calls.safely("PUT", _path(name), body, JSON))

    async def delete(self, name: str) -> None:
        """Delete a namespace's settings. Raises `NamespaceNotDeclared`, `NoMetadataStore`."""
        await self._calls.once("DELETE", _path(name))


def _path(name: str) -> str:
    return f"{_PATH}/{check_namespace(name)}"
