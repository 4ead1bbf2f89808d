"""A schema as the registry keeps it: its type, its text, and what it refers to.

The type is a part of what a schema is: one text may be a schema of two types. The guid is
Confluent's, the MD5 of text and references, which leaves the type out; clients send it along.
"""

import hashlib
import struct
import uuid
from dataclasses import dataclass
from typing import NamedTuple

AVRO = "AVRO"
JSON = "JSON"
PROTOBUF = "PROTOBUF"

_INT32 = struct.Struct(">i")
_IDENTITY_BYTES = 16


class Reference(NamedTuple):
    """What a schema means by a name: a version of a subject."""

    name: str
    subject: str
    version: int


@dataclass(frozen=True, slots=True)
class Schema:
    """A schema. Two that are equal have one id in a context."""

    kind: str
    """`AVRO`, `JSON` or `PROTOBUF`; the interface calls it schemaType."""
    text: str
    """As it is kept."""
    references: tuple[Reference, ...] = ()

    @property
    def identity(self) -> bytes:
        """The same for equal schemas alone."""
        told = hashlib.blake2b(digest_size=_IDENTITY_BYTES)
        parts = [self.kind, self.text, *(str(part) for each in self.references for part in each)]
        for part in parts:
            raw = part.encode(errors="surrogatepass")
            told.update(_INT32.pack(len(raw)))
            told.update(raw)
        return told.digest()

    @property
    def guid_bytes(self) -> bytes:
        """The 16 bytes of the guid."""
        told = hashlib.md5(self.text.encode(errors="replace"), usedforsecurity=False)
        for reference in self.references:
            told.update(reference.name.encode())
            told.update(reference.subject.encode())
            told.update(_INT32.pack(reference.version))
        return told.digest()

    @property
    def guid(self) -> str:
        """The guid, as text."""
        return str(uuid.UUID(bytes=self.guid_bytes))
