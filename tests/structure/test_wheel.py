"""The built packages: `tms`, which works beside others' packages, and the one for Spark."""

import re
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from tests.structure.sources import ROOT
from tms import __version__

pytestmark = pytest.mark.slow

SERVER_PACKAGES = [name for name in ("tables", "api", "cleanup") if (ROOT / name).is_dir()]
INSTALLED_HERE = next(path for path in sys.path if path.endswith("site-packages"))
"""The folder with the installed packages that ours depends on."""
BUILD_S_MAX = 600.0

TYPED = {"tms/py.typed"}
"""Declares to type checkers that the library has types."""


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the source distribution, and the wheel built from it."""
    folder = tmp_path_factory.mktemp("dist")
    run("-m", "build", "--no-isolation", "--outdir", str(folder), str(ROOT), cwd=folder)
    return folder


@pytest.fixture(scope="module")
def wheel(built: Path) -> Path:
    """The wheel."""
    (found,) = built.glob("*.whl")
    return found


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that the wheel is installed in, alone."""
    folder = tmp_path_factory.mktemp("installed")
    quietly = ["--quiet", "--disable-pip-version-check", "--root-user-action=ignore"]
    alone = ["--no-deps", "--no-index", "--target", str(folder)]
    run("-m", "pip", "install", *quietly, *alone, str(wheel), cwd=folder)
    return folder


def run(*arguments: str, cwd: Path) -> str:
    """Run Python, which must succeed, and return what it prints."""
    done = subprocess.run(
        [sys.executable, *arguments],
        check=False,
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=BUILD_S_MAX,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def run_installed(*arguments: str, path: list[Path], cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run Python with the folders of `path` and our dependencies, but without this source tree."""
    # -S: no .pth file is read, and an editable installation is found by one.
    return subprocess.run(
        [sys.executable, "-S", *arguments],
        check=False,
        cwd=cwd,
        env={"PYTHONPATH": ":".join([*map(str, path), INSTALLED_HERE])},
        capture_output=True,
        text=True,
        timeout=BUILD_S_MAX,
    )


def test_a_release_is_built_and_tried(tmp_path: Path) -> None:
    done = subprocess.run(
        [ROOT / "scripts/release", "dist"],
        check=False,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=BUILD_S_MAX,
    )

    assert done.returncode == 0, done.stderr
    (made,) = (tmp_path / "dist").glob("*.whl")
    assert len([*(tmp_path / "dist").glob("*.tar.gz")]) == 1
    assert (tmp_path / "dist/NOTES.md").read_text().startswith(f"# TMS {__version__} ")
    assert f"To install it: pip install '{made}[server,arrow]'" in done.stdout
    assert "Published 1 message." in done.stderr


def names_in(wheel: Path) -> list[str]:
    """Return the names of the files in a wheel."""
    with zipfile.ZipFile(wheel) as archive:
        return archive.namelist()


def test_the_wheel_has_one_top_level_name_and_that_by_which_spark_finds_it(wheel: Path) -> None:
    tops = {name.partition("/")[0] for name in names_in(wheel)}

    assert {"tms", "pyspark_tms"} == {top for top in tops if not top.endswith(".dist-info")}


def test_the_wheel_has_all_modules_with_their_interfaces_and_nothing_else(wheel: Path) -> None:
    expected = {
        path.relative_to(ROOT).as_posix()
        for package in ("tms", "pyspark_tms")
        for path in (ROOT / package).rglob("*.py")
    }
    for package in SERVER_PACKAGES:
        expected |= {
            f"tms/_server/{path.relative_to(ROOT).as_posix()}"
            for kind in ("*.py", "*.thrift", "console/assets/*", "console/templates/*")
            for path in (ROOT / package).rglob(kind)
        }

    assert expected == {name for name in names_in(wheel) if ".dist-info/" not in name} - TYPED


def test_the_wheel_has_the_licence_and_the_command(wheel: Path) -> None:
    ends = {name.partition(".dist-info/")[2] for name in names_in(wheel)}

    assert {"licenses/LICENSE", "entry_points.txt"} <= ends


def test_links_of_the_description_lead_to_the_source(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (each for each in archive.namelist() if each.endswith(".dist-info/METADATA"))
        metadata = archive.read(name).decode()

    links = re.findall(r"\]\(([^)]+)\)", metadata)
    assert links
    assert [link for link in links if not link.startswith("https://")] == []


def test_the_source_distribution_has_what_the_wheel_is_made_of(built: Path) -> None:
    (sdist,) = built.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        tops = {name.split("/")[1] for name in archive.getnames()}

    assert {"tms", "pyspark_tms", *SERVER_PACKAGES, "README.md", "CHANGELOG.md", "LICENSE"} <= tops
    assert "tests" not in tops


def test_an_installed_server_is_loaded_from_within_the_package(
    installed: Path, tmp_path: Path
) -> None:
    code = (
        "import tms.server.stores, tables\n"
        "with tms.server.stores.importing('api'): import api\n"
        "print(tms.__file__, tables.__file__, api.__file__)"
    )
    done = run_installed("-c", code, path=[installed], cwd=tmp_path)

    assert done.returncode == 0, done.stderr
    assert [
        str(installed / "tms/__init__.py"),
        str(installed / "tms/_server/tables/__init__.py"),
        str(installed / "tms/_server/api/__init__.py"),
    ] == done.stdout.split()


def test_an_embedded_store_leaves_a_users_own_api_alone(installed: Path, tmp_path: Path) -> None:
    own = tmp_path / "own/api"
    own.mkdir(parents=True)
    (own / "__init__.py").write_text("IS_OWN = True\n")
    code = (
        "import tms.server.node, api, sys; print(api.IS_OWN, any('_server' in p for p in sys.path))"
    )
    done = run_installed("-c", code, path=[own.parent, installed], cwd=tmp_path)

    assert done.stdout.split() == ["True", "False"], done.stderr


def test_the_installed_command_lists_its_commands(installed: Path, tmp_path: Path) -> None:
    done = run_installed(str(installed / "bin/tms"), "--help", path=[installed], cwd=tmp_path)

    assert done.returncode == 0, done.stderr
    assert {"serve", "topic", "publish", "poll"} <= set(done.stdout.split())


def test_the_client_leaves_other_packages_alone(installed: Path, tmp_path: Path) -> None:
    server = "{'tables', 'api', 'tms.server.node'}"
    code = f"import tms, sys; tms.connect; print({server} & set(sys.modules))"
    done = run_installed("-c", code, path=[installed], cwd=tmp_path)

    assert done.stdout.strip() == "set()", done.stderr


@pytest.fixture
def pytables(tmp_path: Path) -> Path:
    """A folder with another package that is named `tables`, as PyTables is."""
    package = tmp_path / "others/tables"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("IS_PYTABLES = True\n")
    return package.parent


def test_a_server_is_refused_beside_pytables_in_one_process(
    installed: Path, pytables: Path, tmp_path: Path
) -> None:
    code = "import tables; import tms.server.node"
    done = run_installed("-c", code, path=[pytables, installed], cwd=tmp_path)

    assert done.returncode == 1
    assert "another package named tables is imported already" in done.stderr


def test_a_server_runs_if_pytables_is_installed(
    installed: Path, pytables: Path, tmp_path: Path
) -> None:
    code = "import tms.server.node, tables; print(hasattr(tables, 'IS_PYTABLES'))"
    done = run_installed("-c", code, path=[pytables, installed], cwd=tmp_path)

    assert done.stdout.strip() == "False", done.stderr
