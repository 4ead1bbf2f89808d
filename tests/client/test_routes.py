"""The things that a request refers to, as a pure function of its path and query."""

from hypothesis import given
from hypothesis import strategies as st

from tms.client.remote.remote_messaging import topic_path
from tms.client.remote.routes import RouteKey, keys_of
from tms.core.values.topic import TopicId

NAMES = st.from_regex(r"[A-Za-z0-9_]{1,12}", fullmatch=True)
TAILS = st.sampled_from(
    ["", "/publish?ids=true", "/poll?wait=1.000", "/subscriptions/s/take", "?x"]
)


@given(NAMES, NAMES, TAILS)
def test_all_of_a_topic_is_for_it_and_perhaps_led_as_its_namespace(
    namespace: str, name: str, tail: str
) -> None:
    keys = keys_of(f"{topic_path(TopicId(namespace, name))}{tail}")
    assert keys == (RouteKey("topic", f"{namespace}/{name}"), RouteKey("namespace", namespace))
    assert keys_of(f"/v1/namespaces/{namespace}/topics/{name}{tail}") == keys
    assert keys_of(f"v1/transactions?namespace={namespace}&topic={name}") == keys
    for part in ("topics", "publish?transaction=1", "positions"):
        assert keys_of(f"v1/namespaces/{namespace}/{part}") == keys[1:]


@given(NAMES, NAMES, NAMES, NAMES)
def test_two_topics_are_never_the_same_thing(a: str, b: str, c: str, d: str) -> None:
    one, other = keys_of(f"v1/namespaces/{a}/topics/{b}"), keys_of(f"v1/namespaces/{c}/topics/{d}")
    assert (one[0] == other[0]) == ((a, b) == (c, d))


@given(st.integers(min_value=0), st.sampled_from(["", "/commit", "/abort", "?codec=false"]))
def test_a_transaction_is_named_by_its_id(number: int, tail: str) -> None:
    assert keys_of(f"v1/transactions/{number}{tail}") == (RouteKey("transaction", str(number)),)


@given(st.text() | st.builds("v1/{}/{}?{}".format, st.text(), st.text(), st.text()))
def test_any_path_has_keys_with_names_or_none(path: str) -> None:
    keys = keys_of(path)
    assert all(key.name for key in keys)
    assert keys == keys_of(path)


def test_what_is_of_all_has_no_key() -> None:
    assert keys_of("v1/transactions") == (RouteKey("namespace", "default"),)
    for path in (
        "v1/transactions?status=invalid",
        "v1/transactions?shard=1",
        "v1/transactions/invalid/size",
        "v1/transactions/owners?limit=3",
        "v1/cluster",
        "v1/namespaces/n",
        "v1/namespaces//topics/t",
        "registry/subjects",
        "",
    ):
        assert keys_of(path) == (), path
