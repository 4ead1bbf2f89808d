"""The output of protoc for a Protobuf file: its descriptor, and classes of its messages."""

import tempfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import grpc_tools
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.type import money_pb2
from grpc_tools import protoc

INCLUDED = Path(grpc_tools.__file__).parent / "_proto"
"""The files that come with Protobuf."""
GOOGLES = Path(money_pb2.__file__).parents[2]
"""Where Google's common types are."""


def described(
    text: str, imported: Mapping[str, str] | None = None
) -> descriptor_pb2.FileDescriptorProto | None:
    """Return the descriptor that protoc makes of a file; None if protoc refuses the file.

    `imported` are texts that it may import, by their names.
    """
    with tempfile.TemporaryDirectory() as folder:
        source, made = Path(folder, "m.proto"), Path(folder, "m.bin")
        source.write_text(text, encoding="utf-8")
        for name, each in (imported or {}).items():
            Path(folder, name).parent.mkdir(parents=True, exist_ok=True)
            Path(folder, name).write_text(each, encoding="utf-8")
        arguments = [
            "protoc",
            f"-I{folder}",
            f"-I{INCLUDED}",
            f"-I{GOOGLES}",
            f"-o{made}",
            str(source),
        ]
        if protoc.main(arguments):
            return None
        files = descriptor_pb2.FileDescriptorSet.FromString(made.read_bytes())
    return files.file[0]


@cache
def classes(text: str) -> dict[str, Any]:
    """Return the classes of a file's top-level messages, by their names in the file."""
    found = described(text)
    assert found is not None, text
    pool = descriptor_pool.DescriptorPool()
    pool.Add(found)
    package = f"{found.package}." if found.package else ""
    return {
        each.name: message_factory.GetMessageClass(
            pool.FindMessageTypeByName(f"{package}{each.name}")
        )
        for each in found.message_type
    }
