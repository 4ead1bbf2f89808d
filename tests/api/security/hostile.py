"""Texts that strangers may send to make a server work long, or reveal what it must not reveal."""

import json
from collections.abc import Callable
from time import thread_time

FLOOR_S = 0.1
"""A measurement of less processor time is meaningless."""
GROWTH_MAX = 2.6
"""The highest permitted cost of doubled input, as a multiple."""
SECRET = "s3cr3t-of-another"
_SHORT_STEP_S = 0.03
_STEP_UNITS_MAX = 40
"""The most work that others may have to wait for: less than 50 ms on a fast core."""
_URL = f"zk://me:{SECRET}@host:1/"
_UNIT = json.dumps([{"id": number, "name": f"n{number}"} for number in range(1_500)])
_UNITS = {
    "slashes": "/",
    "starts of URLs": "://",
    "at signs": "@",
    "commas": ",",
    "a start, at signs": "://@@@@@@@@",
    "at signs, starts": "/@://",
    "passwords with slashes": "://a:b/c@",
    "many words": " ://a@",
    "many hosts": ",a:b@",
    "braces": "{[(",
    "quotes": "\"'\\",
    "percents": "%25%",
    "semicolons": "; q=0.1,*/*",
    "ampersands": "&a=1&b",
    "numbers": "1234567890",
    "not ASCII": "é\u2028\U0001f600",
}
KINDS = tuple(_UNITS)


def is_short(step_s: float) -> bool:
    """Whether a step of the loop took little processor time, compared with a fixed piece of work.

    An absolute bound would depend on the machine, and on what else it does.
    """

    def work(text: str) -> None:
        for each in json.loads(text):
            each["name"] = each["name"].encode() + b"%d" % each["id"]

    if step_s <= _SHORT_STEP_S:
        return True
    return step_s <= _STEP_UNITS_MAX * min(_cpu_s(work, _UNIT) for _ in range(5))


def hostile(kind: str, size: int) -> str:
    """Return a text of about this many bytes in UTF-8, which starts with a password."""
    unit = _UNITS[kind]
    text = _URL + unit * (size // len(unit.encode()) + 1)
    return text.encode()[:size].decode(errors="ignore")


def is_linear(call: Callable[[str], object], kind: str) -> bool:
    """Whether 64 KB cost at most three times as much as 32 KB; a quadratic cost is four times.

    The least CPU time of several calls is compared, and again if something came between.
    """
    texts = hostile(kind, 32 * 1024), hostile(kind, 64 * 1024)
    for _ in range(10):
        half_s, whole_s = (min(_cpu_s(call, text) for _ in range(3)) for text in texts)
        if whole_s <= 3 * half_s:
            return True
    return False


def _cpu_s(call: Callable[[str], object], text: str) -> float:
    began_s = thread_time()
    call(text)
    return thread_time() - began_s
