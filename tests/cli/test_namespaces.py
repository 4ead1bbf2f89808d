"""`tms namespace`, against a real server."""

import json

from tests.cli.conftest import Run


def test_settings_are_set_shown_listed_and_deleted(run: Run) -> None:
    code, out, _ = run("namespace", "set", "shop", "--ttl-max", "100", "--messages-per-s", "7")
    assert code == 0
    assert out == ("Set namespace shop: ttl_s_max 100, publish_messages_per_s 7 (version 0).\n")

    assert run("namespace", "show", "shop")[1].splitlines() == [
        "shop: version 0",
        "RULE                    VALUE     SET BY",
        "ttl_s_default           100       server",
        "ttl_s_max               100       namespace",
        "message_bytes_max       10485760  server",
        "request_bytes_max       16777216  server",
        "publish_messages_per_s  7         namespace",
        "publish_bytes_per_s     -         server",
    ]
    rows = [line.split(maxsplit=2) for line in run("namespace", "list")[1].splitlines()]
    assert ["shop", "0", "ttl_s_max 100, publish_messages_per_s 7"] in rows
    told = json.loads(run("namespace", "show", "shop", "--json")[1])
    assert told["settings"] == {"ttl_s_max": 100, "publish_messages_per_s": 7}
    assert told in json.loads(run("namespace", "list", "--json")[1])

    options = ("--ttl-default", "1", "--message-bytes", "2", "--request-bytes", "3")
    run("namespace", "set", "shop", *options, "--bytes-per-s", "4")
    assert json.loads(run("namespace", "show", "shop", "--json")[1])["settings"] == {
        "ttl_s_default": 1,
        "message_bytes_max": 2,
        "request_bytes_max": 3,
        "publish_bytes_per_s": 4,
    }
    assert run("namespace", "delete", "shop")[1] == "Namespace shop has no settings any more.\n"
    assert run("namespace", "show", "shop")[1].startswith("shop: not declared\n")
    assert run("namespace", "delete", "shop")[::2] == (
        3,
        "The namespace has no settings of its own. (namespace=shop)\n",
    )


def test_who_goes_beyond_them_is_told_what_to_do(run: Run) -> None:
    run("namespace", "set", "tight", "--message-bytes", "3", "--ttl-max", "100")
    tight = ("--namespace", "tight")

    code, _, err = run("topic", "create", "t", "--ttl", "101", *tight)
    assert code == 4
    assert "give a shorter one, or raise that limit with `tms namespace set`" in err
    run("topic", "create", "t", *tight)
    code, _, err = run("publish", "t", "1234", *tight)
    assert code == 4
    assert "publish a smaller one, or raise the limit with `tms namespace set`" in err


def test_settings_that_are_none_are_refused(run: Run) -> None:
    for wrong in (("--ttl-max", "0"), ("--message-bytes", "6", "--request-bytes", "5")):
        code, out, err = run("namespace", "set", "shop", *wrong)
        assert (code, out) == (4, "")
        assert err.startswith("A namespace's settings are")
    assert run("namespace", "set", "a-b")[2].startswith("A namespace's name has")
