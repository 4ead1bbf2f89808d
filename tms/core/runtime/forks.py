"""Parts that a child made by `os.fork()` must not share with its parent.

A child has a copy of all memory, and none of the parent's threads but one. So locks may be held for
ever there, and sockets and files are the parent's. Whatever has such parts registers here, and is
told in the child before anything else runs there. `multiprocessing`'s fork and servers that fork
are told too; a program that is started anew has nothing to forget.
"""

import os
from typing import Protocol
from weakref import WeakSet


class Forked(Protocol):
    """An object with parts that belong to one process."""

    def forget_parent(self) -> object:
        """Give up the parts that are the parent's, without touching them, and return them.

        They are never freed: a finalizer of theirs could close or write what the parent uses, or
        wait for a thread that is not there.
        """
        ...


_registered: WeakSet[Forked] = WeakSet()


def tell_in_child(forked: Forked) -> None:
    """Have `forked.forget_parent` called in each child that is forked while it lives."""
    _registered.add(forked)


def _tell() -> None:
    from ctypes import py_object, pythonapi  # noqa: PLC0415  16 ms, for who forks

    for forked in list(_registered):
        # All that Python holds itself is freed at the end of the program, if nothing else.
        pythonapi.Py_IncRef(py_object(forked.forget_parent()))


if hasattr(os, "register_at_fork"):  # not on Windows, which cannot fork
    os.register_at_fork(after_in_child=_tell)
