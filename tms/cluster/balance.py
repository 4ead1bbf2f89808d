"""Decides which server should lead which shard. Pure: every server computes it from what it sees.

1. Each shard is assigned a server, if there is one.
2. A wish for a live server counts. The numbers of other shards differ by at most one between
   servers, as far as wishes allow.
3. A shard moves only if its server is gone, if a wish says so, or to even out the numbers.
4. Applied to its own result, it returns the same, so no shard moves back and forth.
"""

from collections.abc import Collection, Mapping


def balanced(
    shards: Collection[int],
    live: Collection[int],
    holders: Mapping[int, int],
    wishes: Mapping[int, int],
) -> dict[int, int]:
    """Return the instance that should lead each shard; none if no instance is live.

    `holders` are the instances that lead shards now, `wishes` those that an operator chose.
    """
    if not live:
        return {}
    leaders: dict[int, int] = {}
    led: dict[int, int] = dict.fromkeys(sorted(live), 0)
    """The number of shards of each instance so far."""
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
