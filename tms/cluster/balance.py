"""Which server is to lead which shard. Pure: every server computes it from what it sees.

1. Each shard has a server, if there is any.
2. A wish for a live server counts. Of the other shards, no two servers differ by more than one, as
   far as wishes allow.
3. A shard moves only if its server is gone, if a wish says so, or to make the numbers even.
4. The answer for what the answer says is the same, so nothing moves back and forth.
"""

from collections.abc import Collection, Mapping


def balanced(
    shards: Collection[int],
    live: Collection[int],
    holders: Mapping[int, int],
    wishes: Mapping[int, int],
) -> dict[int, int]:
    """Return for each of some shards the instance that is to lead it; nothing if none is live.

    `holders` are the instances that lead shards now, `wishes` those that an operator wants to.
    """
    if not live:
        return {}
    leaders: dict[int, int] = {}
    led: dict[int, int] = dict.fromkeys(sorted(live), 0)
    """How many shards each instance has so far."""
    wished = {shard for shard in shards if wishes.get(shard) in led}
    for shard in shards:
        named = wishes if shard in wished else holders
        if named.get(shard) in led:
            leaders[shard] = named[shard]
            led[leaders[shard]] += 1
    for shard in shards:
        if shard not in leaders:
            leaders[shard] = min(led, key=led.__getitem__)
            led[leaders[shard]] += 1
    while (moving := _to_move(leaders, led, wished)) is not None:
        emptiest = min(led, key=led.__getitem__)
        led[leaders[moving]] -= 1
        led[emptiest] += 1
        leaders[moving] = emptiest
    return leaders


def _to_move(
    leaders: Mapping[int, int], led: Mapping[int, int], wished: Collection[int]
) -> int | None:
    """Return a shard of the fullest instance to move to the emptiest; None if none needs to."""
    least = min(led.values())
    movable = [
        (led[instance], shard)
        for shard, instance in leaders.items()
        if shard not in wished and led[instance] > least + 1
    ]
    return max(movable)[1] if movable else None
