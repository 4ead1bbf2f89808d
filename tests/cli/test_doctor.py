"""`tms doctor`: the problems that it finds in a machine, in files and in settings."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from tests.cli.conftest import run_command


def found(*arguments: str) -> tuple[int, dict[str, list[tuple[str, str]]]]:
    """Return the exit code, and the verdicts and texts of checks by name."""
    code, out, err = run_command("doctor", "--json", *arguments)
    assert err == ""
    checks: dict[str, list[tuple[str, str]]] = {}
    for each in json.loads(out):
        checks.setdefault(each["name"], []).append((each["verdict"], each["text"]))
    return code, checks


def certificate(folder: Path, days: int) -> tuple[Path, Path]:
    """Return the files of a certificate that ends in `days`, and of its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "tms")])
    ends = datetime.now(UTC) + timedelta(days=days)
    signed = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(ends - timedelta(days=60))
        .not_valid_after(ends)
        .sign(key, hashes.SHA256())
    )
    files = folder / "cert.pem", folder / "key.pem"
    files[0].write_bytes(signed.public_bytes(serialization.Encoding.PEM))
    private = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    files[1].write_bytes(private)
    files[1].chmod(0o600)
    return files


def test_a_machine_that_is_well_is_told_with_its_fsync_rate(tmp_path: Path) -> None:
    code, checks = found("--store", f"leveldb:{tmp_path / 'new/store'}")

    assert code == 0
    assert "fsyncs/s" in checks["disk"][1][1]
    assert checks["versions"][0][1].startswith("TMS ")
    assert {"clock", "descriptors"} <= set(checks)
    assert [*tmp_path.iterdir()] == [], "it leaves nothing there"


def test_settings_that_contradict_each_other_are_wrong() -> None:
    code, checks = found("--store", "memory:", "--advertise", "http://a:1")
    assert code == 1
    assert "advertise is for servers that share a store" in checks["settings"][0][1]

    code, checks = found("--store", "memory:", "--listen", "0.0.0.0:1", "--no-sync")
    assert code == 1
    assert [verdict for verdict, _ in checks["settings"]] == ["wrong", "warning"]


@pytest.mark.parametrize(("days", "verdict"), [(-1, "wrong"), (5, "warning"), (100, "ok")])
def test_the_end_of_a_certificate_is_told(days: int, verdict: str, tmp_path: Path) -> None:
    cert, key = certificate(tmp_path, days)
    files = ("--tls-cert", str(cert), "--tls-key", str(key))
    code, checks = found("--store", "memory:", *files)

    assert checks["certificates"][0][0] == verdict
    assert code == (verdict == "wrong")


def test_files_that_others_may_read_or_nobody_are_told(tmp_path: Path) -> None:
    cert, key = certificate(tmp_path, 100)
    key.chmod(0o644)
    store = tmp_path / "store"
    store.mkdir(mode=0o755)
    _, checks = found(
        *("--store", f"leveldb:{store}", "--tls-cert", str(cert), "--tls-key", str(key))
    )
    assert "chmod 600" in checks["files"][0][1]
    assert "chmod 700" in checks["store"][0][1]

    key.unlink()
    code, checks = found("--store", "memory:", "--tls-cert", str(cert), "--tls-key", str(key))
    assert (code, checks["files"][0][0]) == (1, "wrong")
    assert found("--store", f"leveldb:{cert}")[0] == 1


def test_people_read_a_table() -> None:
    code, out, _ = run_command("doctor", "--store", "memory:")

    assert code == 0
    assert out.splitlines()[0].split() == ["RESULT", "CHECK", "TEXT"]
