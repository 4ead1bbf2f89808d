"""Protobuf files compiled by protoc: their validity and their descriptors.

protoc runs in this process, from the package grpcio-tools. It reads files, so each compilation has
a folder of its own. It writes errors to the process's standard error, which is redirected to a file
in the meantime, so one compilation runs at a time.
"""

import os
import re
import tempfile
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from threading import Lock

from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet
from grpc_tools import protoc

from tms.registry.questions.questions import InvalidSchema
from tms.serdes.standard_protos import STANDARD_FILES

_OWN_NAME = "schema.proto"
"""The name of a file without one."""
_STANDARD_ERROR = 2
_ERROR_BYTES_MAX = 64 * 1024
_PLACE = re.compile(r"^(\d+):(\d+): ")
_NO_MISTAKE = re.compile(r"^[IWE]\d{4} |^WARNING: |: warning: ")
_STANDARD_SET = FileDescriptorSet(
    file=[FileDescriptorProto.FromString(raw) for raw in STANDARD_FILES.values()]
).SerializeToString()
_one_at_a_time = Lock()


def compiled(text: str, others: Mapping[str, str]) -> FileDescriptorSet:
    """Return the descriptors of a file and of all its imports, each after its own imports.

    It may import `others`, texts by name, and the standard files; its own descriptor is the last.
    Raises `InvalidSchema`.
    """
    with tempfile.TemporaryDirectory(prefix="tms-protoc-") as folder:
        own = _OWN_NAME
        while own in others:
            own = f"_{own}"
        sources, standard, made = (Path(folder, name) for name in ("sources", "standard", "made"))
        sources.mkdir()
        for name, source in (*others.items(), (own, text)):
            _write(sources, name, source)
        standard.write_bytes(_STANDARD_SET)
        mistakes = _run(
            *("protoc", f"-I{sources}", f"--descriptor_set_in={standard}", f"-o{made}"),
            *("--include_imports", "--error_format=gcc", str(sources / own)),
        )
        if mistakes is not None:
            raise InvalidSchema(_first_error(mistakes, f"{sources}/", own))
        return FileDescriptorSet.FromString(made.read_bytes())


def _write(folder: Path, name: str, text: str) -> None:
    """Write a file where an import of its name finds it. Raises `InvalidSchema`."""
    if not _is_path(name):
        raise InvalidSchema(f"a file cannot be imported as {name!r}")
    target = folder / name
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(text.encode())
    except (OSError, ValueError) as error:
        raise InvalidSchema(f"{name!r} cannot be written as a file: {error}") from None


def _is_path(name: str) -> bool:
    """Whether protoc would look for an import of this name."""
    path = PurePosixPath(name)
    is_inside = not path.is_absolute() and not {"", ".", ".."} & {*path.parts}
    return is_inside and str(path) == name and "\\" not in name and "\0" not in name


def _run(*arguments: str) -> str | None:
    """Run protoc; return its error output, None if there is none."""
    with _one_at_a_time, tempfile.TemporaryFile() as written:
        kept = os.dup(_STANDARD_ERROR)
        try:
            os.dup2(written.fileno(), _STANDARD_ERROR)
            failed = protoc.main(list(arguments))
        finally:
            os.dup2(kept, _STANDARD_ERROR)
            os.close(kept)
        if not failed:
            return None
        written.seek(0)
        return written.read(_ERROR_BYTES_MAX).decode(errors="replace")


def _first_error(mistakes: str, folder: str, own: str) -> str:
    """Return the first error that protoc wrote, for people."""
    lines = (line for line in mistakes.splitlines() if line and not _NO_MISTAKE.search(line))
    first = next(lines, "protoc refuses it").replace(folder, "").removeprefix(f"{own}:")
    return _PLACE.sub(r"line \1, column \2: ", first).strip()
