"""All that readers see of a store, by the client's public names alone.

Versions of TMS that wrote the golden stores ran this too, so it uses only names that they had.
"""

from typing import Any

NAMES = ("orders", "prices", "named", "framed")
OWNER, SEQUENCE = "job", 7


def seen(client: Any) -> dict[str, Any]:
    """Return it as JSON has it. Bytes are hexadecimal digits, or ASCII where they are payloads."""
    topics = client.topics()
    return {
        "topics": {name: client.topic(name).properties() for name in topics},
        "messages": {name: _messages(client.topic(name)) for name in NAMES if name in topics},
        "positions": [
            [each.name, _hex(each.after), each.version]
            for each in client.topic("orders").subscriptions()
        ],
        "in_progress": [_transaction(each) for each in client.transactions.in_progress()],
        "invalid": [_transaction(each) for each in client.transactions.invalid()],
        "of_transactions": [
            [_message(each) for each in client.topic("orders").poll(tx=open_one)]
            for open_one in map(_restored(client), client.transactions.in_progress())
        ],
    }


def _restored(client: Any) -> Any:
    return lambda info: client.transactions.transaction(info.transaction_id)


def _messages(topic: Any) -> dict[str, Any]:
    return {
        "all": [_message(each) for each in topic.poll()],
        "committed": [_message(each) for each in topic.poll(committed=True)],
    }


def _message(message: Any) -> list[Any]:
    key, headers = getattr(message, "key", None), getattr(message, "headers", {})
    payload = None if getattr(message, "is_tombstone", False) else message.payload.decode()
    said = [message.id.hex(), payload]
    if key is None and not headers:
        return said
    return [*said, _hex(key), {name: value.decode() for name, value in headers.items()}]


def _transaction(info: Any) -> dict[str, Any]:
    return {
        "id": info.transaction_id,
        "status": info.status.value,
        "type": info.type.value,
        "write_pointers": list(info.write_pointers),
        "started_ms": info.started_ms,
        "owner": info.owner,
        "sequence": info.sequence,
    }


def _hex(value: bytes | None) -> str | None:
    return None if value is None else value.hex()
