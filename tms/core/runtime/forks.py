"""Parts that a child of `os.fork()` must not share with its parent.

A child has a copy of all memory but only one thread. So locks may be held for ever there, and
sockets and files are the parent's. An object with such parts registers here, and is called in the
child before anything else runs. This covers `multiprocessing`'s fork and servers that fork; a
program that `exec` starts has nothing to forget.
"""

import os
from typing import Protocol
from weakref import WeakSet


class Forked(Protocol):
    """An object with parts that belong to one process."""

    def forget_parent(self) -> object:
        """Give up the parent's parts without touching them, and return them.

        They are never freed: a finalizer could close or write what the parent uses, or wait for a
        thread that does not exist.
        """
        ...


_registered: WeakSet[Forked] = WeakSet()


def tell_in_child(forked: Forked) -> None:
    """Call `forked.forget_parent` in each forked child as long as the object lives."""
    _registered.add(forked)


def _tell() -> None:
    from ctypes import py_object, pythonapi  # noqa: PLC0415  16 ms, only to fork

    for forked in list(_registered):
        # Python frees all objects that nothing else refers to at the end of the program.
        pythonapi.Py_IncRef(py_object(forked.forget_parent()))


if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=_tell)
