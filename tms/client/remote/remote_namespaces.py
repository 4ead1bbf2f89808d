"""Namespaces over REST.

To give the same settings twice does the same as once, so it is repeated; a deletion is not.
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
        """Return a namespace; one that is not declared too."""
        return await self._get(_path(name), decode_namespace)

    async def declare(self, name: str, settings: NamespaceSettings) -> Namespace:
        """Give a namespace these settings and no others. Raises `NoMetadataStore`."""
        body = encode_settings(settings)
        return decode_namespace(await self._calls.safely("PUT", _path(name), body, JSON))

    async def delete(self, name: str) -> None:
        """Take a namespace's settings away. Raises `NamespaceNotDeclared`, `NoMetadataStore`."""
        await self._calls.once("DELETE", _path(name))


def _path(name: str) -> str:
    return f"{_PATH}/{check_namespace(name)}"
