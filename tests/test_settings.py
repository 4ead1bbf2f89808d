"""Settings: their sources, which source wins, and errors that name the source."""

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.cli.conftest import run_command
from tms.cli.failure import ExitCode
from tms.settings import DEFAULT, Settings, WrongSettings, flag_of, load, variable_of
from tms.settings.server import ADVANCED

HELP_LINES_MAX = 60
"""The lines that fit on a screen."""


@pytest.fixture(autouse=True)
def _clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith("TMS_"):
            monkeypatch.delenv(name)


def problems(flags: dict[str, object], config: Path | None = None) -> list[str]:
    with pytest.raises(WrongSettings) as wrong:
        load(flags, config)
    return wrong.value.problems


def test_every_setting_is_described() -> None:
    for name, field in Settings.model_fields.items():
        assert field.description, name
        assert field.description.endswith("."), name


def test_flags_win_over_the_environment_over_the_file_over_the_default(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "tms.toml"
    file.write_text(
        'store = "memory:"\nlisten = "file:1"\npoll_messages_max = 5000\nsync = false\n'
    )
    monkeypatch.setenv("TMS_LISTEN", "environment:2")
    monkeypatch.setenv("TMS_POLL_MESSAGES_MAX", "6000")
    monkeypatch.setenv("TMS_LOG_LEVEL", "")

    loaded = load({"poll_messages_max": "7000", "ttl_s_default": None}, file)

    settings, sources = loaded.settings, loaded.sources
    assert (settings.store, sources["store"]) == ("memory:", str(file))
    assert (settings.sync, sources["sync"]) == (False, str(file))
    assert (settings.listen, sources["listen"]) == ("environment:2", "TMS_LISTEN")
    assert settings.model_dump()["poll_messages_max"] == 7000
    assert settings.limits().poll_messages_max == 7000
    assert sources["poll_messages_max"] == "--poll-messages-max"
    assert (settings.log_level, sources["log_level"]) == ("info", DEFAULT)
    assert sources["ttl_s_default"] == DEFAULT


def test_the_file_may_be_named_by_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "tms.toml"
    file.write_text("[advanced]\nstop_grace_s = 2.5")
    monkeypatch.setenv("TMS_CONFIG", str(file))

    assert load({}).settings.stop_grace_s == 2.5


@pytest.mark.parametrize(
    ("listen", "host", "port"),
    [
        ("127.0.0.1:11015", "127.0.0.1", 11015),
        ("[::1]:0", "::1", 0),
        ("tms.example.org:65535", "tms.example.org", 65535),
    ],
)
def test_an_address_is_a_host_and_a_port(listen: str, host: str, port: int) -> None:
    settings = Settings(listen=listen)

    assert (settings.host, settings.port) == (host, port)


@pytest.mark.parametrize(
    ("setting", "value", "reason"),
    [
        ("listen", "11015", "give HOST:PORT"),
        ("listen", "::1:80", "give HOST:PORT"),
        ("listen", "host:65536", "a port from 0 to 65535"),
        ("store", "postgres://x", "give leveldb:DIR, memory: or hbase://HOST:PORT/PREFIX"),
        ("store", "memory:x", "give leveldb:DIR, memory: or hbase://HOST:PORT/PREFIX"),
        ("metadata", "nowhere", "leveldb:DIR, zk://HOST:PORT/CHROOT or etcd:"),
        ("advertise", "host:11015", "give http://HOST:PORT"),
        ("lease_s", "0", "greater than or equal to 0.5"),
        ("topic_info", "other", "'seed' or 'flat'"),
        ("sync", "perhaps", "valid boolean"),
        ("poll_messages_max", "many", "valid integer"),
        ("poll_messages_max", "0", "greater than 0"),
        ("poll_wait_s_max", "nan", "not a valid duration"),
        ("stop_grace_s", "-1", "greater than or equal to 0"),
        ("registry_mode", "slave", "'active' or 'master'"),
        ("registry_advertise", "host:8081", "give http://HOST:PORT"),
        ("registry_namespace", "a/b", "give a path such as /schema_registry"),
        ("registry_session_s", "0", "greater than 0"),
    ],
)
def test_a_wrong_value_is_refused_with_its_source(
    monkeypatch: pytest.MonkeyPatch, setting: str, value: str, reason: str
) -> None:
    (by_flag,) = problems({setting: value})
    assert by_flag.startswith(f"{setting} is {value!r} by {flag_of(setting)}: ")
    assert reason in by_flag

    monkeypatch.setenv(variable_of(setting), value)
    (by_variable,) = problems({})
    assert by_variable.startswith(f"{setting} is {value!r} by {variable_of(setting)}: ")


SHARED = {"store": "hbase://gw:9090/tms?buckets=4", "metadata": "zk://zoo:2181/tms"}


def test_servers_that_share_a_store_know_what_of_it_is_the_same() -> None:
    settings = load({**SHARED, "advertise": "http://a:11015"}).settings

    assert settings.store_shared == "tms"


@pytest.mark.parametrize("missing", ["store", "metadata"])
def test_a_cluster_needs_what_its_servers_share(missing: str) -> None:
    flags = {name: value for name, value in SHARED.items() if name != missing}

    (problem,) = problems({**flags, "advertise": "http://a:11015"})

    assert "advertise is for servers that share a store" in problem


@pytest.mark.parametrize(
    ("flags", "url"),
    [
        ({}, "http://127.0.0.1:11015/v1/registry"),
        ({"listen": "[::1]:1"}, "http://[::1]:1/v1/registry"),
        ({"listen": "0.0.0.0:1"}, None),
        ({"listen": "127.0.0.1:0"}, None),
        ({"listen": "0.0.0.0:1", "registry_listen": "a.example:2"}, "http://a.example:2"),
        ({"registry_advertise": "https://b.example:3/x/"}, "https://b.example:3/x"),
        ({**SHARED, "advertise": "http://c:4"}, "http://c:4/v1/registry"),
    ],
)
def test_the_others_reach_a_master_by_a_url(flags: dict[str, object], url: str | None) -> None:
    settings = load(flags).settings
    assert settings.registry_url == url
    if url is None:
        (problem,) = problems({**flags, "registry_mode": "master"})
        assert "registry_mode=master needs registry_advertise" in problem
    else:
        name = url.partition("://")[2].rpartition(":")[0].strip("[]")
        assert name in settings.own_hosts


def test_only_an_elected_master_has_metadata_beside_anothers_log() -> None:
    flags: dict[str, object] = {"registry_log": "http://a:1", "metadata": "zk://zoo:2181/tms"}
    (problem,) = problems(flags)
    assert "leave out metadata" in problem
    assert load({**flags, "registry_mode": "master"}).settings.elects_by_metadata


def test_limits_that_contradict_each_other_are_named_with_their_sources() -> None:
    (problem,) = problems({"request_bytes_max": "1000"})

    assert problem == (
        "request_bytes_max is '1000' by --request-bytes-max; message_bytes_max is 10485760 by "
        "default: message_bytes_max must not be over request_bytes_max"
    )


def test_unknown_names_are_refused_and_the_nearest_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "tms.toml"
    file.write_text('stor = "memory:"\n[xyzzy]\nlisten = "x"\n')
    monkeypatch.setenv("TMS_LISTN", "x")

    assert problems({"log_level": "loud"}, file) == [
        "environment variable TMS_LISTN is not a setting; do you mean TMS_LISTEN?",
        f"{file}: stor is not a setting; do you mean store?",
        f"{file}: xyzzy is not a setting; `tms config` lists them all",
        "log_level is 'loud' by --log-level: Input should be 'debug', 'info', 'warning' or 'error'",
    ]


def test_a_setting_in_the_wrong_section_is_told_where_it_belongs(tmp_path: Path) -> None:
    file = tmp_path / "tms.toml"
    file.write_text("stop_grace_s = 1\n[advanced]\nsync = false\nstop_grac_s = 2\n")

    assert problems({}, file) == [
        f"{file}: stop_grace_s belongs in the section [advanced]",
        f"{file}: sync belongs above the section [advanced]",
        f"{file}: stop_grac_s is not a setting; do you mean stop_grace_s?",
    ]
    file.write_text("advanced = 1")
    assert problems({}, file) == [f"{file}: [advanced] must be a table of settings"]


def test_advanced_settings_are_settings_and_not_in_the_help() -> None:
    assert set(Settings.model_fields) > ADVANCED
    assert load({"stop_grace_s": "1"}).settings.stop_grace_s == 1

    text = subprocess.run(
        [sys.executable, "-m", "tms", "serve", "--help"],
        env={**os.environ, "COLUMNS": "100"},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    ).stdout

    assert len(text.splitlines()) <= HELP_LINES_MAX
    for name in Settings.model_fields:
        flag = flag_of(name).replace(
            "--", "--[no-]", isinstance(Settings.model_fields[name].default, bool)
        )
        assert (f"  {flag} " in text) is (name not in ADVANCED), name


@pytest.mark.parametrize(
    "name",
    [
        "TMS_URL",
        "TMS_NAMESPACE",
        "TMS_PORT",
        "TMS_SERVICE_HOST",
        "TMS_SERVICE_PORT_HTTP",
        "TMS_PORT_11015_TCP_ADDR",
        "TMS_CONSOLE_SERVICE_HOST",
    ],
)
def test_variables_of_the_client_and_of_kubernetes_are_let_be(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv(name, "tcp://10.0.0.1:11015")

    assert load({}).settings == Settings()


@pytest.mark.parametrize(("text", "reason"), [("= 5", "is not TOML"), (None, "cannot be read")])
def test_a_file_that_cannot_be_used_is_reported(
    tmp_path: Path, text: str | None, reason: str
) -> None:
    file = tmp_path / "tms.toml"
    if text is not None:
        file.write_text(text)
    (problem,) = problems({}, file)

    assert problem.startswith(f"{file} {reason}")


def test_config_shows_values_sources_and_descriptions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMS_TTL_S_DEFAULT", "60")

    code, out, err = run_command("config", "--store", "memory:", "--no-sync")

    assert (code, err) == (0, "")
    assert 'store = "memory:"  (--store)\n    The URL of the store. It is leveldb:' in out
    assert "sync = false  (--sync)\n" in out
    assert "ttl_s_default = 60  (TMS_TTL_S_DEFAULT)\n" in out
    assert 'listen = "127.0.0.1:11015"  (default)\n' in out


def test_config_in_json_has_everything_about_a_setting() -> None:
    described = json.loads(run_command("config", "--json", "--listen", "h:1")[1])

    assert {setting["name"] for setting in described} == set(Settings.model_fields)
    (listen,) = (setting for setting in described if setting["name"] == "listen")
    assert listen == {
        "name": "listen",
        "value": "h:1",
        "source": "--listen",
        "default": "127.0.0.1:11015",
        "description": Settings.model_fields["listen"].description,
        "flag": "--listen",
        "variable": "TMS_LISTEN",
    }


def test_config_makes_a_file_that_gives_the_same_settings(tmp_path: Path) -> None:
    flags = ("--store", 'leveldb:a "b"\\c', "--poll-wait-s-max", "1.5", "--no-sync")
    _, written, _ = run_command("config", "--toml", *flags)

    assert tomllib.loads(written) == {
        "store": 'leveldb:a "b"\\c',
        "poll_wait_s_max": 1.5,
        "sync": False,
        "advanced": {},
    }
    lines = [line for line in written.splitlines() if "=" in line or line.startswith("[")]
    everything = tomllib.loads("\n".join(line.removeprefix("# ") for line in lines))
    assert set(everything.pop("advanced")) == ADVANCED
    assert set(everything) == set(Settings.model_fields) - ADVANCED
    file = tmp_path / "tms.toml"
    file.write_text(written)
    assert run_command("config", "--toml", "--config", str(file))[1] == written


@pytest.mark.parametrize("form", [(), ("--json",), ("--toml",)])
def test_users_and_passwords_are_not_shown(form: tuple[str, ...]) -> None:
    metadata = "zk://me:secret@zoo:2181,zoo2:2181/tms"
    code, out, err = run_command("config", "--metadata", metadata, *form)

    assert (code, err) == (0, "")
    assert "zk://***@zoo:2181,zoo2:2181/tms" in out
    assert "secret" not in out
    assert "me:" not in out
    assert ("are not shown" in out) == (form == ("--toml",))


@pytest.mark.parametrize(
    "arguments",
    [
        ("serve", "--metadata", "zoo://me:secret@h/p"),
        ("serve", "--store", "hbase://me:secret@h"),
        ("metadata", "ls", "/", "--store", "zoo://me:secret@h/p"),
        ("metadata", "ls", "/", "--store", "zk://me:se/cret@h/p"),
        ("copy", "redis://me:secret@h/p", "leveldb:a"),
        ("--url", "http://me:secret@127.0.0.1:9", "topic", "list"),
        ("--url", "http://me:secret@127.0.0.1:9", "cleanup", "show"),
        ("--url", "http://me:se/cret@127.0.0.1:9", "topic", "list"),
        ("--url", "ftp://me:secret@127.0.0.1:9", "topic", "list"),
    ],
)
def test_errors_report_no_passwords(arguments: tuple[str, ...]) -> None:
    code, out, err = run_command(*arguments)

    assert code in (ExitCode.FAILED, ExitCode.USAGE, ExitCode.AWAY)
    assert err
    assert "cret" not in out + err


def test_wrong_settings_end_a_command_with_code_2(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMS_STORR", "memory:")
    for command in ("serve", "config"):
        code, out, err = run_command(command, "--listen", "nowhere")
        assert (code, out) == (2, "")
        assert len(err.splitlines()) == 2


def test_durations_are_given_with_units_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "tms.toml"
    file.write_text('ttl_s_default = "7d"\nlease_s = "2500ms"\ncleanup_period_s = 30\n')
    monkeypatch.setenv("TMS_TRANSACTION_TIMEOUT_S_DEFAULT", "2m")

    flags = {"poll_wait_s_max": "1m30s", "transaction_owner_retention_s": "60"}
    settings = load(flags, file).settings

    limits = settings.limits()
    assert (limits.ttl_s_default, settings.lease_s) == (604_800, 2.5)
    assert (limits.cleanup_period_s, limits.transaction_timeout_s_default) == (30, 120)
    assert (limits.poll_wait_s_max, limits.transaction_owner_retention_s) == (90, 60)
    (wrong,) = problems({"ttl_s_default": "soon"}, file)
    assert wrong.startswith("ttl_s_default is 'soon' by --ttl-s-default: 'soon' is not a")
    assert "ttl_s_default is '1.5s' by" in problems({"ttl_s_default": "1.5s"})[0]
    assert "queue_bytes_max is '1h' by" in problems({"queue_bytes_max": "1h"})[0]
    assert "--ttl-s-default DURATION" in run_command("serve", "--help")[1]
