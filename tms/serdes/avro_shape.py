"""What an Avro schema is made of, as far as it matters to who reads hostile bytes by it. Pure."""

from collections.abc import Mapping
from typing import Any

RECORDS = ("record", "error")


class AvroShape:
    """Whether a schema contains itself, and whether it has arrays whose items take no bytes."""

    def __init__(self, schema: Any) -> None:
        """Look at a schema as JSON has it; it is right, and has all that it refers to."""
        self.is_recursive = False
        self.has_empty_items = False
        self._least: dict[str, int] = {}
        """By the full name of a type how few bytes its value takes; 0, or 1 for more."""
        self._within: list[str] = []
        self._look(schema, "")

    def _look(self, schema: Any, namespace: str) -> int:
        """Return 0 if a value may take no bytes, otherwise 1."""
        if isinstance(schema, str):
            return self._look_named(schema, namespace)
        if isinstance(schema, list):
            for branch in schema:
                self._look(branch, namespace)
            return 1
        return self._look_described(schema, schema["type"], namespace)

    def _look_described(self, schema: Mapping[str, Any], kind: Any, namespace: str) -> int:
        match kind:
            case "record" | "error":
                return self._look_record(schema, namespace)
            case "array":
                if not self._look(schema["items"], namespace):
                    self.has_empty_items = True
            case "map":
                self._look(schema["values"], namespace)
            case "fixed":
                self._least[name_of(schema, namespace)] = min(1, schema["size"])
                return min(1, int(schema["size"]))
            case "enum":
                return 1
            case _:
                return self._look(kind, namespace)
        return 1

    def _look_named(self, name: str, namespace: str) -> int:
        if name == "null":
            return 0
        full = _full(name, namespace)
        self.is_recursive |= full in self._within
        return self._least.get(full, 1)

    def _look_record(self, schema: Mapping[str, Any], namespace: str) -> int:
        full = name_of(schema, namespace)
        self._within.append(full)
        inner = full.rpartition(".")[0]
        least = [self._look(field["type"], inner) for field in schema["fields"]]
        self._within.pop()
        self._least[full] = max(least, default=0)
        return self._least[full]


def name_of(schema: Mapping[str, Any], namespace: str = "") -> str:
    """Return the full name of a named type, within a namespace."""
    return _full(schema["name"], schema.get("namespace", namespace))


def _full(name: str, namespace: str) -> str:
    return name if "." in name or not namespace else f"{namespace}.{name}"


def record_name(schema: Any) -> str:
    """Return the full name of a record, empty for what is none."""
    is_record = isinstance(schema, dict) and schema.get("type") in RECORDS
    return name_of(schema) if is_record else ""
