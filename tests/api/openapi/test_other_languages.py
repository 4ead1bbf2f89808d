"""Clients generated from the document for Go and TypeScript publish, poll, take and ack.

The generators and their versions are in `go/`, `typescript/` and `heyapi/`. The first run downloads
them.
"""

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

import tms
from api.app import OPERATIONS
from api.openapi.service import service_document
from tests.servers.server_process import ServerProcess

pytestmark = pytest.mark.slow

HERE = Path(__file__).parent
RUN_S_MAX = 600
"""The first run downloads the generators and compiles them."""
GO_GENERATOR = "github.com/oapi-codegen/oapi-codegen/v2/cmd/oapi-codegen@v2.8.2"
TYPES = ("--default-non-nullable=false", "--output", "schema.d.ts")
"""These options let callers omit a field that has a default."""
INSTALL = ("npm", "install", "--no-audit", "--no-fund", "--no-package-lock", "--loglevel=error")
CLIENT = HERE.parents[2] / "clients" / "typescript"
PAGE = HERE.parents[2] / "docs" / "other_tools.md"
GO_FOLDER = "/usr/local/go/bin"
MESSAGES, TAKEN = 4, 3


@pytest.fixture(scope="module")
def server() -> Iterator[ServerProcess]:
    with ServerProcess("memory:") as process:
        yield process


def run(folder: Path, *command: str) -> None:
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=RUN_S_MAX, check=False
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]


def copied(files: Path, folder: Path) -> Path:
    """Copy the files of a program, and the document beside them."""
    shutil.copytree(files, folder, dirs_exist_ok=True)
    (folder / "openapi.json").write_text(json.dumps(service_document(OPERATIONS)))
    return folder


def check_result(server: ServerProcess, topic: str) -> None:
    """Check that the commit acknowledged the messages taken, and published its own."""
    with tms.connect(server.url) as client:
        group = client.topic(topic).group("workers")
        state = group.show().state
        assert (state.leased, state.open + state.unread) == (0, MESSAGES - TAKEN + 1)
        payloads = [message.payload for message in client.topic(topic).poll(committed=True)]
        assert payloads[-1] == b"result"


def test_a_client_in_go(server: ServerProcess, tmp_path: Path) -> None:
    go = shutil.which("go", path=f"{os.environ['PATH']}{os.pathsep}{GO_FOLDER}")
    if go is None:
        pytest.skip("needs go")
    assert GO_GENERATOR in PAGE.read_text()
    folder = copied(HERE / "go", tmp_path)
    (folder / "api").mkdir()
    into = ("-package", "api", "-generate", "types,client", "-o", "api/client.go")
    run(folder, go, "run", GO_GENERATOR, *into, "openapi.json")

    run(folder, go, "run", ".", server.url)

    check_result(server, "from-go")


def skip_without_npm() -> None:
    missing = [tool for tool in ("node", "npm") if shutil.which(tool) is None]
    if missing:
        pytest.skip(f"needs {', '.join(missing)}: apt-get install nodejs npm")


def test_a_client_in_typescript(server: ServerProcess, tmp_path: Path) -> None:
    skip_without_npm()
    folder = copied(HERE / "typescript", tmp_path)
    run(folder, *INSTALL)
    run(folder, "npx", "openapi-typescript", "openapi.json", *TYPES)
    run(folder, "npx", "tsc")

    run(folder, "node", "main.js", server.url)

    check_result(server, "from-typescript")


def test_a_client_of_hey_api(server: ServerProcess, tmp_path: Path) -> None:
    skip_without_npm()
    folder = copied(HERE / "heyapi", tmp_path)
    run(folder, *INSTALL)
    run(folder, "npx", "openapi-ts", "--input", "openapi.json", "--output", "client")
    run(folder, "npx", "tsc")

    run(folder, "node", "main.js", server.url)

    check_result(server, "from-hey-api")


def test_our_client_has_the_types_of_the_document(tmp_path: Path) -> None:
    skip_without_npm()
    folder = copied(CLIENT, tmp_path)
    run(folder, *INSTALL)

    run(folder, "npm", "run", "build")

    assert "GroupMessage" in (folder / "types" / "group.d.ts").read_text()
