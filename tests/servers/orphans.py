"""Ends the programs that a process of tests has started, however that process itself ended.

Every process that a test starts inherits `MARK` in its environment. A keeper, a process of its own,
waits until its parent ends, and then kills all processes with its parent's mark. So neither Ctrl-C
nor kill -9 leaves a server running, whatever session it is in.
"""

import os
import select
import signal
import sys
from pathlib import Path

MARK = "STARTED_BY_TESTS"


def keep() -> None:
    """Mark all processes that this one starts from now on, and start the keeper."""
    own = f"{os.getpid()}-{Path('/proc/self/stat').read_text().rsplit(')', 1)[1].split()[19]}"
    os.environ[MARK] = own
    command = [sys.executable, "-S", "-E", __file__, str(os.getpid()), own]
    os.posix_spawn(command[0], command, os.environ, setsid=True)  # the keeper ignores Ctrl-C


def marked(own: str) -> list[int]:
    """Return the processes that have a mark, except this one."""
    found = []
    for process in Path("/proc").iterdir():
        if not process.name.isdecimal() or int(process.name) == os.getpid():
            continue
        try:
            variables = (process / "environ").read_bytes().split(b"\0")
        except OSError:  # it has ended, or is another user's
            continue
        if f"{MARK}={own}".encode() in variables:
            found.append(int(process.name))
    return found


def kill(pid: int) -> None:
    """Kill a process, and wait for its end."""
    try:
        ended = os.pidfd_open(pid)
        signal.pidfd_send_signal(ended, signal.SIGKILL)
    except ProcessLookupError:
        return
    select.select([ended], [], [])
    os.close(ended)


def main() -> None:
    """Wait until the given process ends, and kill the programs that it left."""
    parent, own = int(sys.argv[1]), sys.argv[2]
    try:
        ended = os.pidfd_open(parent)
    except ProcessLookupError:
        pass
    else:
        if os.getppid() == parent:
            select.select([ended], [], [])
    while pids := marked(own):
        for pid in pids:
            kill(pid)


if __name__ == "__main__":
    main()
