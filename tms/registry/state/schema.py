"""A schema as the registry stores it: type, text, references, metadata and rules.

The type is part of a schema's identity, because one text may be valid in two types. The guid is
Confluent's, the MD5 of everything except the type; clients include it in payloads.
"""

import hashlib
import struct
import uuid
from dataclasses import dataclass

import msgspec

from tms.core.services.schemas import NUMBER_MAX, SchemaReference
from tms.core.values.schema_contracts import (
    SchemaMetadata,
    SchemaRuleSet,
    digest_metadata,
    digest_rules,
)

_INT32 = struct.Struct(">i")
_IDENTITY_BYTES = 16
_FOLLOWS = b"\x01"
_encode = msgspec.json.Encoder().encode


def is_number(value: int) -> bool:
    """Whether a value can be an id, or the number of a version."""
    return 0 < value <= NUMBER_MAX


@dataclass(frozen=True, slots=True)
class Schema:
    """A schema. Equal ones have one id in a context."""

    kind: str
    """The name of its type; `schemaType` in the interface."""
    text: str
    """The stored text."""
    references: tuple[SchemaReference, ...] = ()
    metadata: SchemaMetadata | None = None
    """With its parts in order."""
    rule_set: SchemaRuleSet | None = None
    """With defaults filled in."""

    def has_text_of(self, other: "Schema") -> bool:
        """Whether two schemas are equal except for metadata and rules."""
        mine, others = (self.kind, self.text, self.references), (other.kind, other.text)
        return mine == (*others, other.references)

    @property
    def identity(self) -> bytes:
        """It is equal for equal schemas only."""
        digest = hashlib.blake2b(digest_size=_IDENTITY_BYTES)
        parts = [self.kind, self.text]
        for reference in self.references:
            parts += [reference.name, reference.subject, str(reference.version)]
        if self.metadata is not None or self.rule_set is not None:
            parts.append(_encode((self.metadata, self.rule_set)).decode())
        for part in parts:
            raw = part.encode(errors="surrogatepass")
            digest.update(_INT32.pack(len(raw)))
            digest.update(raw)
        return digest.digest()

    @property
    def guid_bytes(self) -> bytes:
        """The 16 bytes of the guid."""
        digest = hashlib.md5(self.text.encode(errors="replace"), usedforsecurity=False)
        for reference in self.references:
            digest.update(reference.name.encode())
            digest.update(reference.subject.encode())
            digest.update(_INT32.pack(reference.version))
        if self.metadata is not None:
            digest.update(_FOLLOWS)
            digest_metadata(digest, self.metadata)
        if self.rule_set is not None:
            digest.update(_FOLLOWS)
            digest_rules(digest, self.rule_set)
        return digest.digest()

    @property
    def guid(self) -> str:
        """The guid, as text."""
        return str(uuid.UUID(bytes=self.guid_bytes))
