"""`Namespaces` for threads, made from `tms.core.values.namespaces`.

Do not edit it: change that, and run `python -m dev.sync_client`.
"""

from collections.abc import Sequence

from tms.client.threads.bridge import Bridge
from tms.core.values.namespaces import AsyncNamespaces, Namespace, NamespaceSettings


class Namespaces:
    """The namespaces of a server. Each method may also raise `Unavailable` and `InternalError`.

    A bad name raises `InvalidRequest` (invalid_namespace_name).
    """

    def __init__(self, namespaces: AsyncNamespaces, bridge: Bridge) -> None:
        """Use `namespaces`, called through `bridge`."""
        self._namespaces = namespaces
        self._bridge = bridge

    def namespaces(self) -> Sequence[Namespace]:
        """Return the declared namespaces in the order of their names."""
        return self._bridge.call(self._namespaces.namespaces)

    def namespace(self, name: str) -> Namespace:
        """Return a namespace, even one that is not declared."""
        return self._bridge.call(self._namespaces.namespace, name)

    def declare(self, name: str, settings: NamespaceSettings) -> Namespace:
        """Replace the settings of a namespace; in effect on this server on return.

        Raises `NoMetadataStore` if the server has nowhere to store them, and `TooLarge`
        (namespace_limit_reached).
        """
        return self._bridge.call(self._namespaces.declare, name, settings)

    def delete(self, name: str) -> None:
        """Delete a namespace's settings. Raises `NamespaceNotDeclared`, `NoMetadataStore`."""
        self._bridge.call(self._namespaces.delete, name)
