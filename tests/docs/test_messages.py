"""docs/messages.md states the limits of the code."""

from tests.docs.markdown import ROOT
from tms.core.limits import Limits

PAGE = "docs/messages.md"


def test_the_limits_are_those_of_the_code() -> None:
    text = (ROOT / PAGE).read_text(encoding="utf-8")
    limits = Limits()

    assert f"{limits.frame_bytes_max // 1024} KiB" in text
    assert f"headers, {limits.message_headers_max}." in text
