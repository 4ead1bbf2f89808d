"""`tms doctor`: looks at what a server that does not start cannot report itself.

1. It needs no server and opens no store, so it can run beside a server, or on a full disk.
2. It changes nothing; to measure the disk it writes and deletes one small file beside the store's.
3. A check is `ok`, a `warning`, or `wrong`; if anything is wrong, the exit code is 1.
"""

import ctypes
import os
import platform
import resource
import shutil
import stat
import time
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Literal

from tms import __version__
from tms.cli.lines import utc_of
from tms.core.limits import MS_PER_S
from tms.core.runtime.clock import SystemClock
from tms.core.text.credentials import without_credentials
from tms.core.text.hosts import is_loopback
from tms.core.text.store_url import folder_of
from tms.security.certificates import first_end
from tms.settings import Settings

Verdict = Literal["ok", "warning", "wrong"]
FREE_BYTES_MIN = 256 * 1024 * 1024
"""Less is wrong: LevelDB may need as much to open a store."""
FSYNCS_S_MIN = 100
FSYNCS = 50
_OWN_DESCRIPTORS = 256
"""A server opens these in addition to connections: files of LevelDB, worker processes."""
_ENDS_DAYS = 14
_DAY_MS = 86_400 * MS_PER_S
_SECRET = ("tls_key", "auth_passwords", "registry_token_file", "hbase_tls_certificate")
_READ = (*_SECRET, "tls_cert", "tls_client_ca", "tls_ca", "hbase_tls_ca")
_CERTIFICATES = ("tls_cert", "tls_client_ca", "tls_ca", "hbase_tls_ca", "hbase_tls_certificate")
_NAMED = ("plyvel", "plyvel-next", "uvloop", "httptools", "msgspec", "prometheus-client", "avro")
_MIB = 1024 * 1024
_OTHERS = stat.S_IRWXG | stat.S_IRWXO
_TIME_ERROR = 5
"""adjtimex returns it if the clock is not synchronized."""


@dataclass(frozen=True, slots=True)
class Check:
    """The result of one look."""

    name: str
    verdict: Verdict
    text: str


def examine(settings: Settings | None, problems: tuple[str, ...] = ()) -> list[Check]:
    """Return all checks; without settings, which have `problems`, those that need none."""
    checks = [*_versions(), *_clock()]
    checks += [Check("settings", "wrong", each) for each in problems]
    if settings is not None:
        checks += [
            *_contradictions(settings),
            *_files(settings),
            *_store(settings),
            *_descriptors(settings),
            *_certificates(settings),
        ]
    return checks


def _versions() -> Iterator[Check]:
    others = []
    for name in _NAMED:
        try:
            others.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            continue
    system = f"{platform.system()} {platform.release()}, {platform.machine()}"
    python = f"Python {platform.python_version()}"
    yield Check("versions", "ok", f"TMS {__version__}; {python}; {system}; {', '.join(others)}.")


def _clock() -> Iterator[Check]:
    now = utc_of(SystemClock().now_ms())
    timex = ctypes.create_string_buffer(1024)  # zeros: read, and set nothing
    state = getattr(ctypes.CDLL(None), "adjtimex", lambda _: 0)(timex)
    if state == _TIME_ERROR:
        text = f"It is {now}, and the kernel says that no time server sets the clock."
        yield Check(
            "clock", "warning", f"{text} Messages get their times from it (docs/clocks.md)."
        )
    else:
        yield Check("clock", "ok", f"It is {now}.")


def _contradictions(settings: Settings) -> Iterator[Check]:
    texts = []
    try:
        settings.check_safe(*settings.listened_hosts)
    except ValueError as error:
        yield Check("settings", "wrong", f"{error}.")
    if settings.auth == "off" and (settings.auth_tokens or settings.auth_passwords):
        texts.append("auth_tokens or auth_passwords are set, but auth is off: anybody may do all.")
    if settings.auth != "off" and not settings.superusers:
        texts.append("auth is on, but superusers is empty: nobody may write the first rules.")
    if not settings.sync:
        texts.append("sync is off: a crash of the machine loses acknowledged messages.")
    is_proxy_here = any(each.network_address.is_loopback for each in settings.proxies)
    if settings.proxies and not is_proxy_here and all(map(is_loopback, settings.listened_hosts)):
        texts.append("trusted_proxies names other machines, but only this one can connect.")
    for text in texts:
        yield Check("settings", "warning", text)


def _files(settings: Settings) -> Iterator[Check]:
    for name in _READ:
        file = getattr(settings, name)
        if not file:
            continue
        try:
            with Path(file).open("rb") as opened:
                mode = os.fstat(opened.fileno()).st_mode
        except OSError as error:
            yield Check("files", "wrong", f"{name}: cannot read {file}: {error.strerror}.")
            continue
        if name in _SECRET and mode & _OTHERS:
            text = f"{name}: others may read {file}; chmod 600 it."
            yield Check("files", "warning", text)


def _store(settings: Settings) -> Iterator[Check]:
    folder = folder_of(settings.store)
    if folder is None:
        yield Check("store", "ok", f"{without_credentials(settings.store)} has no folder here.")
        return
    place = folder
    while not place.exists() and place != place.parent:
        place = place.parent
    if not place.is_dir() or not os.access(place, os.W_OK | os.X_OK):
        yield Check("store", "wrong", f"This user, {os.getuid()}, cannot write to {place}.")
        return
    for path in (folder, *folder.glob("leveldb/*")) if folder.exists() else ():
        status = path.stat()
        if status.st_uid != os.getuid():
            text = f"{path} belongs to user {status.st_uid}; this is user {os.getuid()}."
            yield Check("store", "warning" if os.getuid() == 0 else "wrong", text)
            break
    if folder.exists() and stat.S_IMODE(folder.stat().st_mode) & _OTHERS:
        yield Check("store", "warning", f"Others may enter {folder}; chmod 700 it.")
    free_bytes = shutil.disk_usage(place).free
    verdict: Verdict = "wrong" if free_bytes < FREE_BYTES_MIN else "ok"
    yield Check("disk", verdict, f"{free_bytes // _MIB:,} MiB are free at {place}.")
    try:
        rate = fsyncs_s(place)
    except OSError as error:
        yield Check("disk", "wrong", f"Cannot write to {place}: {error.strerror}.")
        return
    slow = settings.sync and rate < FSYNCS_S_MIN
    text = f"{rate:,.0f} fsyncs/s at {place}; requests that come together share one."
    yield Check("disk", "warning" if slow else "ok", text)


def fsyncs_s(folder: Path) -> float:
    """Return how many small writes a second the disk of `folder` syncs. Raises `OSError`."""
    with NamedTemporaryFile(dir=folder, prefix=".tms-doctor-") as file:
        began_s = time.perf_counter()
        for _ in range(FSYNCS):
            file.write(b"x" * 512)
            file.flush()
            os.fdatasync(file.fileno())
        return FSYNCS / (time.perf_counter() - began_s)


def _descriptors(settings: Settings) -> Iterator[Check]:
    most, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    connections_max = settings.limits().connections_max
    needed = connections_max + _OWN_DESCRIPTORS
    text = f"This process may open {most:,} files, and {hard:,} if it raises its limit."
    if hard < needed:
        text += f" For connections_max, {connections_max:,}, a server needs {needed:,}."
    yield Check("descriptors", "warning" if hard < needed else "ok", text)


def _certificates(settings: Settings) -> Iterator[Check]:
    files = {getattr(settings, name): name for name in _CERTIFICATES if getattr(settings, name)}
    if not files:
        return
    for file, name in files.items():
        try:
            ends = first_end(file)
        except ModuleNotFoundError:
            yield Check("certificates", "warning", "Not read: the extra auth is not installed.")
            return
        except OSError:
            continue  # reported with the files
        except ValueError:
            yield Check("certificates", "wrong", f"{name}: {file} has no certificate.")
            continue
        days = (int(ends.timestamp() * MS_PER_S) - SystemClock().now_ms()) // _DAY_MS
        verdict: Verdict = "ok"
        if days < _ENDS_DAYS:
            verdict = "wrong" if days < 0 else "warning"
        when = ends.strftime("%Y-%m-%d")
        yield Check("certificates", verdict, f"{name}: the first in {file} ends on {when}.")
