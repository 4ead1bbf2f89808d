"""`Namespaces` for threads, made from `tms.core.values.namespaces`.

Do not edit it: change that, and run `python -m dev.sync_client`.
"""

from collections.abc import Sequence

from tms.client.threads.bridge import Bridge
from tms.core.values.namespaces import AsyncNamespaces, Namespace, NamespaceSettings


class Namespaces:
    """The namespaces of a server. Each method may raise `Unavailable` and `InternalError` too.

    A name that is none raises `InvalidRequest` (invalid_namespace_name).
    """

    def __init__(self, namespaces: AsyncNamespaces, bridge: Bridge) -> None:
        """Stand on `namespaces`, called through `bridge`."""
        self._namespaces = namespaces
        self._bridge = bridge

    def namespaces(self) -> Sequence[Namespace]:
        """Return the declared namespaces in the order of their names."""
        return self._bridge.call(self._namespaces.namespaces)

    def namespace(self, name: str) -> Namespace:
        """Return a namespace; one that is not declared too."""
        return self._bridge.call(self._namespaces.namespace, name)

    def declare(self, name: str, settings: NamespaceSettings) -> Namespace:
        """Give a namespace these settings and no others; in force here when it returns.

        Raises `NoMetadataStore` where the server has nothing to keep them in, and `TooLarge`
        (namespace_limit_reached).
        """
        return self._bridge.call(self._namespaces.declare, name, settings)

    def delete(self, name: str) -> None:
        """Take a namespace's settings away. Raises `NamespaceNotDeclared`, `NoMetadataStore`."""
        self._bridge.call(self._namespaces.delete, name)
