"""The log as JSON."""

import json
import logging
import sys

from tms.core.runtime.log_format import JsonFormatter


def test_a_record_is_one_line_with_its_fields_and_traceback() -> None:
    try:
        int("two\nlines")
    except ValueError:
        record = logging.LogRecord("a.b", 30, "f", 1, "%s é\n", ("x",), sys.exc_info())
    record.fields = {"request_id": "1", "other": object}

    line = JsonFormatter().format(record)

    assert line.isascii()
    assert "\n" not in line
    told = json.loads(line)
    assert (told["level"], told["logger"], told["message"]) == ("WARNING", "a.b", "x é\n")
    assert told["request_id"] == "1"
    assert told["exception"].endswith("'two\\nlines'")
