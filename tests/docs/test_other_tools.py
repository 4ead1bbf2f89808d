"""Pages about other tools and filters: their examples print what the pages say."""

import json
import shutil
import socket
from pathlib import Path

import pytest

import tms
from tests.docs.markdown import blocks, links
from tests.docs.newcomer import ADDRESS, Newcomer, is_as_told
from tests.servers.other_programs import running

PAGE = "docs/other_tools.md"
PAGES = pytest.mark.parametrize("page", [PAGE, "docs/filters.md"])
LINES = 250


@PAGES
def test_the_examples_print_what_the_page_says(tmp_path: Path, page: str) -> None:
    printed = ""
    with Newcomer(tmp_path) as newcomer:
        newcomer.serve()
        for block in blocks(page):
            if block.kind in ("sh", "python"):
                printed = newcomer.carry_out(block)
            elif block.kind == "text":
                assert is_as_told(block.text, printed), f"{block.place}: it prints\n{printed}"


@PAGES
def test_links_lead_somewhere(page: str) -> None:
    assert [link for link in links(page) if not link.exists()] == []


@pytest.mark.slow
def test_syslog_ng_publishes_each_line_once_and_in_order(tmp_path: Path) -> None:
    if shutil.which("syslog-ng") is None:
        pytest.skip("syslog-ng is not installed: apt-get install syslog-ng-mod-http")
    with socket.create_server(("127.0.0.1", 0)) as held:
        port = held.getsockname()[1]
    [conf] = [block.text for block in blocks(PAGE) if block.kind == "conf"]
    with Newcomer(tmp_path) as newcomer:
        newcomer.serve()
        here = conf.replace(ADDRESS, newcomer.url.removeprefix("http://"))
        (tmp_path / "conf").write_text(here.replace("port(5514)", f"port({port})"))
        files = [
            f"--persist-file={tmp_path}/p",
            f"--pidfile={tmp_path}/i",
            f"--control={tmp_path}/c",
        ]
        command = ["syslog-ng", "--foreground", "--no-caps", f"--cfgfile={tmp_path}/conf", *files]
        with tms.connect(newcomer.url) as client:
            topic = client.topic("logs")
            topic.create()
            line = "<13>1 2026-11-29T12:00:00Z host app - - - line {}\n"
            with running(command, port):
                with socket.create_connection(("127.0.0.1", port)) as sender:
                    sender.sendall("".join(map(line.format, range(LINES))).encode())
                messages = topic.follow()
                lines = [json.loads(next(messages).payload)["MESSAGE"] for _ in range(LINES)]
    assert lines == [f"line {number}" for number in range(LINES)]
