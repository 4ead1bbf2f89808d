"""Named positions: consumers that know the current one move it, at once or in a commit."""

import pytest

import tms


@pytest.fixture
def billing(topic: tms.Topic) -> tms.Subscription:
    topic.publish([b"one", b"two", b"three"])
    subscription = topic.subscription("billing")
    subscription.create()
    return subscription


def payloads(subscription: tms.Subscription, **options: object) -> list[bytes]:
    return [message.payload for message in subscription.poll(**options)]  # type: ignore[arg-type]


def test_a_position_is_created_moved_and_deleted(topic: tms.Topic) -> None:
    topic.publish([b"one", b"two"])
    first, second = topic.poll()
    billing = topic.subscription("billing")
    created = billing.create()
    assert type(created) is tms.SubscriptionPosition
    assert (created.name, created.after) == ("billing", None)
    assert payloads(billing) == [b"one", b"two"]

    billing.advance(first)
    assert payloads(billing) == [b"two"]
    position = billing.position()
    assert (position.after, position.version) == (first.id, created.version + 1)
    billing.advance(second.id.hex())
    assert payloads(billing) == []
    billing.advance(tms.MessageId.decode(first.id))
    assert payloads(billing, limit=5) == [b"two"]
    assert [each.name for each in topic.subscriptions()] == ["billing"]

    billing.delete()
    assert topic.subscriptions() == []
    with pytest.raises(tms.SubscriptionNotFound):
        billing.position()
    with pytest.raises(tms.SubscriptionNotFound):
        payloads(billing)


def test_one_may_begin_behind_a_message(topic: tms.Topic) -> None:
    topic.publish([b"one", b"two"])
    topic.subscription("late").create(after=next(iter(topic.poll())))

    assert payloads(topic.subscription("late")) == [b"two"]


def test_a_name_and_an_id_are_checked(topic: tms.Topic, billing: tms.Subscription) -> None:
    with pytest.raises(tms.InvalidRequest) as name:
        topic.subscription("a/b")
    assert name.value.problem.code == "invalid_subscription_name"
    with pytest.raises(tms.InvalidRequest):
        billing.advance(b"short")
    with pytest.raises(TypeError, match="not a message"):
        billing.advance(5)  # type: ignore[arg-type]
    with pytest.raises(tms.SubscriptionExists):
        billing.create()
    assert repr(billing) == f"Subscription({topic.namespace}:orders, billing)"


def test_of_two_consumers_one_gets_an_error(topic: tms.Topic, billing: tms.Subscription) -> None:
    twin = topic.subscription("billing")
    first = next(billing.poll())
    assert next(twin.poll()) == first

    billing.advance(first)
    with pytest.raises(tms.SubscriptionMoved):
        twin.advance(first)
    assert next(twin.poll()).payload == b"two"


def test_a_position_moves_with_the_commit(
    client: tms.Client, topic: tms.Topic, billing: tms.Subscription
) -> None:
    created = billing.position()
    with client.transaction() as tx:
        first, second = billing.poll(2, tx=tx)
        billing.advance(first, tx)
        # New messages are after the moved position, even before it is moved.
        assert payloads(billing, tx=tx) == [b"two", b"three"]
        billing.advance(second, tx)
        assert topic.subscription("billing").position() == created

    position = billing.position()
    assert (position.after, position.version) == (second.id, created.version + 1)
    assert payloads(billing) == [b"three"]


def test_a_position_stays_where_the_transaction_fails(
    client: tms.Client, billing: tms.Subscription
) -> None:
    created = billing.position()
    with pytest.raises(LookupError), client.transaction() as tx:  # noqa: PT012
        billing.advance(next(billing.poll()), tx)
        raise LookupError
    with client.transaction() as tx:
        billing.advance(next(billing.poll()), tx)
        tx.abort()
    with pytest.raises(RuntimeError, match="rolled back"):
        billing.advance(next(billing.poll()), tx)

    assert billing.position() == created
    billing.advance(next(billing.poll()))
    assert payloads(billing) == [b"two", b"three"]


def test_what_another_consumer_took_is_rolled_back_and_run_again(
    client: tms.Client, topic: tms.Topic, billing: tms.Subscription
) -> None:
    """Consume, publish and move: each message once, even with concurrent consumers."""
    done = client.topic("done")
    done.create()
    runs = 0
    created = billing.position()

    def work(tx: tms.TransactionContext) -> None:
        nonlocal runs
        runs += 1
        message = next(billing.poll(tx=tx))
        done.publish(message.payload, tx)
        billing.advance(message, tx)
        if runs == 1:
            twin = topic.subscription("billing")
            twin.advance(next(twin.poll()))

    client.run_in_transaction(work)

    assert runs == 2
    assert [message.payload for message in done.poll(committed=True)] == [b"two"]
    assert billing.position().version == created.version + 2
