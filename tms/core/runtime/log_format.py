"""The log as JSON, one object a line, for programs that collect logs.

`time` (RFC 3339, UTC), `level`, `logger`, `message`; `exception` with a traceback. A record's
`fields` (`extra={"fields": …}`) are members too: the access log has its facts there.
"""

import json
import logging
from datetime import UTC, datetime

TEXT = "%(asctime)s %(levelname)s %(name)s: %(message)s"


class JsonFormatter(logging.Formatter):
    """Formats a record as one line of ASCII."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        time = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        fields: dict[str, object] = {
            "time": time.replace("+00:00", "Z"),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
            **getattr(record, "fields", {}),
        }
        if record.exc_info:
            fields["exception"] = self.formatException(record.exc_info)
        return json.dumps(fields, default=str)
