"""Cuts the answer to a poll in `avro/binary` into messages, as CDAP's Java client does."""

from tms.core.errors import InvalidRequest
from tms.core.values.avro_lengths import read_length
from tms.core.values.message import ID_BYTES, MessageBlock
from tms.wire.avro_bodies import plain_run


class AvroPollDecoder:
    """Cuts an Avro array of messages into blocks while it arrives.

    It looks at the lengths alone, so a message is decoded once, by the code that iterates over its
    block. Between two pieces it keeps the beginning of one message at most.
    """

    def __init__(self) -> None:
        """Expect the first block."""
        self._rest = b""
        self._left = 0
        self._ended = False
        self.last_id = b""
        """The id of the last message returned, empty before the first."""

    def feed(self, data: bytes) -> MessageBlock:
        """Return the messages that `data` completes, perhaps none."""
        received = self._rest + data
        runs: list[bytes] = []
        count = at = 0
        while not self._ended:
            if self._left:
                taken, end, last_start = plain_run(received, at, self._left)
                runs.append(received[at:end])
                if last_start is not None:
                    self.last_id = received[last_start + 1 : last_start + 1 + ID_BYTES]
                self._left -= taken
                count, at = count + taken, end
                if self._left:
                    break
                continue
            try:
                self._left, at = read_length(received, at)
            except IndexError:
                break
            self._ended = self._left == 0
        self._rest = received[at:]
        return MessageBlock(count, b"".join(runs))

    def close(self) -> None:
        """Raise `InvalidRequest` (invalid_body) unless the end of the array was received."""
        if not self._ended or self._rest:
            raise InvalidRequest("invalid_body", format="avro", reason="the answer is cut off")
