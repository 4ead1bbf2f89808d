"""The namespaces of a server or store, for threads (`tms.core.namespaces.AsyncNamespaces`)."""

from collections.abc import Sequence

from tms.client.bridge import Bridge
from tms.core.namespaces import AsyncNamespaces, Namespace, NamespaceSettings


class Namespaces:
    """All namespaces of the server or store, for those who look after it.

    Made by `Client.namespaces`. Each method may raise `InvalidRequest` (invalid_namespace_name),
    `Unavailable` and `InternalError`.
    """

    def __init__(self, namespaces: AsyncNamespaces, bridge: Bridge) -> None:
        """Stand on `namespaces`, called through `bridge`."""
        self._namespaces = namespaces
        self._bridge = bridge

    def namespaces(self) -> Sequence[Namespace]:
        """Return the declared namespaces in the order of their names."""
        return self._bridge.call(self._namespaces.namespaces)

    def namespace(self, name: str) -> Namespace:
        """Return a namespace and what holds in it; one that is not declared too."""
        return self._bridge.call(lambda: self._namespaces.namespace(name))

    def declare(self, name: str, settings: NamespaceSettings) -> Namespace:
        """Give a namespace these settings and no others; return it as it is now.

        They hold for publishes, and for topics created or changed from now on. Raises
        `NoMetadataStore` where the server has nothing to keep them in.
        """
        return self._bridge.call(lambda: self._namespaces.declare(name, settings))

    def delete(self, name: str) -> None:
        """Take a namespace's settings away; its topics stay.

        Raises `NamespaceNotDeclared`, `NoMetadataStore`.
        """
        self._bridge.call(lambda: self._namespaces.delete(name))
