"""The shape of an Avro schema, which decides what must be checked of its values. Pure."""

from typing import Any

from tms.serdes.avro_tree import RECORDS, AvroTree, kind_of, parts_of


class AvroShape:
    """Whether a schema contains itself, has logical types, or arrays whose items take no bytes."""

    def __init__(self, tree: AvroTree) -> None:
        """Inspect a valid schema with all that it refers to."""
        self.is_recursive = False
        self.has_empty_items = False
        self.has_logical_types = False
        self._least: dict[str, int] = {}
        """By a type's full name, how few bytes a value takes: 0, or 1 for more."""
        self._within: list[str] = []
        self._look(tree.top)

    def _look(self, node: Any) -> int:
        """Return 0 if a value may take no bytes, otherwise 1."""
        kind = kind_of(node)
        self.has_logical_types |= isinstance(node, dict) and "logicalType" in node
        if kind in RECORDS:
            return self._look_at_record(node)
        inner = [self._look(part) for part in parts_of(node)]
        match kind:
            case "array":
                self.has_empty_items |= inner == [0]
            case "fixed":
                self._least[node["name"]] = min(1, int(node["size"]))
                return self._least[node["name"]]
            case "null":
                return 0
            case _ if isinstance(node, str):
                self.is_recursive |= node in self._within
                return self._least.get(node, 1)
        return 1

    def _look_at_record(self, node: Any) -> int:
        name = node["name"]
        self._within.append(name)
        least = [self._look(part) for part in parts_of(node)]
        self._within.pop()
        self._least[name] = max(least, default=0)
        return self._least[name]
