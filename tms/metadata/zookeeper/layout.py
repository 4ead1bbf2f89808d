"""The nodes of values in ZooKeeper, and the meaning of its events.

    value of /a/b/c  := CHROOT "/a%/b%/c"
    below /a/b       := CHROOT "/a%/b%"        a container: deleted some time after its last child
    revisions        := CHROOT "/%"            written to get a new number

A value and the paths below it are under two nodes. So a path that only has others below it has no
value, a version begins with 0 and means what ZooKeeper's does, and values can be ephemeral.
Characters other than ASCII, and `%`, are percent-encoded, because ZooKeeper does not accept all. DO
NOT CHANGE: stored.
"""

from functools import lru_cache
from urllib.parse import quote, unquote

from tms.metadata.paths import ROOT

_MARK = "%"
_REMEMBERED = 10_000
_PLAIN = " !\"#$&'()*+,-.:;<=>?@[\\]^_`{|}~"


class Layout:
    """The nodes of a store below one base."""

    def __init__(self, base: str) -> None:
        self.base = base
        self.revisions = f"{base}/{_MARK}"

    def value_node(self, path: str) -> str:
        """Return the node that has the value of a path, which is not the root."""
        *above, name = _encoded(path)
        return "/".join([self.base, *(each + _MARK for each in above), name])

    def folder_node(self, path: str) -> str:
        """Return the node above everything below a path."""
        return "/".join([self.base, *(name + _MARK for name in _encoded(path))])

    def path_of(self, node: str) -> tuple[str, bool] | None:
        """Return the path of a node, and whether it is the folder; None for one that is neither."""
        names = node.removeprefix(f"{self.base}/").split("/")
        if not node.startswith(f"{self.base}/") or names[0] == _MARK:
            return None
        path = "/".join(["", *(unquote(name.removesuffix(_MARK)) for name in names)])
        return path, names[-1].endswith(_MARK)


def names_of(nodes: list[str]) -> list[str]:
    """Return the names of the values and folders among the children of a node, sorted."""
    return sorted({unquote(node.removesuffix(_MARK)) for node in nodes if node != _MARK})


@lru_cache(_REMEMBERED)
def _encoded(path: str) -> tuple[str, ...]:
    return () if path == ROOT else tuple(quote(n, safe=_PLAIN) for n in path[1:].split("/"))
