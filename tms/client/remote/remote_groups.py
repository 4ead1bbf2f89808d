"""Groups over REST, in JSON; messages taken are in Avro.

Calls that are repeated after any failure: those that read, a settle (a repeated ack learns that its
message is settled), a seek, and a take with a sequence, because it returns the same messages again.
The others are repeated only if they certainly were not carried out.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from tms.client.remote.calls import JSON, Calls, of_the_server
from tms.client.remote.remote_messaging import topic_path
from tms.client.remote.retry import may_pass, was_not_done
from tms.core.errors import OutcomeUnknown, SubscriptionIsSingle
from tms.core.values.caller import ANYBODY, Caller
from tms.core.values.group_settings import DEFAULTS, GroupSettings
from tms.core.values.groups import (
    DeadLetters,
    Group,
    GroupMember,
    OpenMessage,
    Position,
    Redriven,
    SeekTo,
    Settle,
    Settled,
    Take,
    Taken,
)
from tms.core.values.subscriptions import SubscriptionKind, check_subscription_name
from tms.core.values.topic import TopicId
from tms.wire import json_dead_letters, json_interventions, json_subscriptions, json_takes
from tms.wire import json_groups as bodies
from tms.wire.avro_taken import decode_taken
from tms.wire.media_types import AVRO_FRAMES_TYPE

_ACCEPT = f"{AVRO_FRAMES_TYPE}, {JSON}"


class RemoteGroups:
    """The groups of a server, as `tms.core.values.groups.Groups`."""

    def __init__(self, calls: Calls) -> None:
        """Send requests by `calls`."""
        self._calls = calls

    async def create_group(
        self,
        topic_id: TopicId,
        name: str,
        settings: GroupSettings = DEFAULTS,
        after: Position = SeekTo.START,
    ) -> Group:
        """Create a group. If there is one of that order, return it as it is."""
        body = bodies.encode_new_group(settings, after)
        answer = await self._calls.safely("PUT", _path(topic_id, name), body, JSON)
        with of_the_server():
            return bodies.decode_group(answer, topic_id)

    async def group(self, topic_id: TopicId, name: str) -> Group:
        """Return a group."""
        answer = await self._calls.safely("GET", _path(topic_id, name))
        with of_the_server():
            shown = json_subscriptions.decode_subscription(answer, topic_id)
            if shown.kind is SubscriptionKind.SHARED:
                return bodies.decode_group(answer, topic_id)
        raise SubscriptionIsSingle(topic=str(topic_id), subscription=name)

    async def groups(self, topic_id: TopicId) -> Sequence[Group]:
        """Return a topic's groups in the order of their names."""
        answer = await self._calls.safely("GET", f"{topic_path(topic_id)}/subscriptions")
        with of_the_server():
            subscriptions = json_subscriptions.decode_subscriptions(answer, topic_id)
        shared = [each.name for each in subscriptions if each.kind is SubscriptionKind.SHARED]
        return [await self.group(topic_id, name) for name in shared]

    async def set_group(
        self,
        topic_id: TopicId,
        name: str,
        changes: Mapping[str, Any],
        expected_version: int | None = None,
    ) -> Group:
        """Change some settings; durable when it returns."""
        body = bodies.encode_changes(changes, expected_version)
        path = f"{_path(topic_id, name)}/settings"
        answer = await self._calls.once("PUT", path, body, JSON)
        with of_the_server():
            return bodies.decode_group(answer, topic_id)

    async def delete_group(self, topic_id: TopicId, name: str) -> None:
        """Delete a group; the messages stay."""
        await self.group(topic_id, name)  # raises if it is a position
        await self._calls.once("DELETE", _path(topic_id, name))

    async def take(
        self,
        topic_id: TopicId,
        name: str,
        take: Take,
        *,
        wait_s: float = 0,
        caller: Caller = ANYBODY,
    ) -> Taken:
        """Lease messages to a member; wait up to `wait_s` seconds for the first one."""
        del caller  # the server knows the caller by the credentials
        path = f"{_path(topic_id, name)}/take"
        when = was_not_done if take.sequence is None else may_pass
        return await self._calls.repeat(when, self._take_once, path, take, wait_s)

    async def _take_once(self, path: str, take: Take, wait_s: float) -> Taken:
        body, query = json_takes.encode_take(take), {"wait": f"{wait_s:.3f}"} if wait_s else {}
        http = self._calls.http
        stream = http.stream(path, body, JSON, query, wait_s, accept=_ACCEPT)
        async with stream as (_, parts):
            answer = b"".join([part async for part in parts])
        if not answer:
            raise OutcomeUnknown(url=http.url, reason="the answer is empty")
        with of_the_server():
            return decode_taken(answer)

    async def settle(
        self, topic_id: TopicId, name: str, member: str, settle: Settle, *, caller: Caller = ANYBODY
    ) -> Settled:
        """Acknowledge, fail, release or extend; durable when it returns."""
        path = f"{_path(topic_id, name)}/settle"
        body = json_takes.encode_settle(member, settle)
        answer = await self._calls.safely("POST", path, body, JSON, caller)
        with of_the_server():
            return json_takes.decode_settled(answer)

    async def members(self, topic_id: TopicId, name: str) -> Sequence[GroupMember]:
        """Return the members by name."""
        answer = await self._calls.safely("GET", f"{_path(topic_id, name)}/members")
        with of_the_server():
            return bodies.decode_members(answer)

    async def open_messages(
        self, topic_id: TopicId, name: str, *, after: bytes | None = None, limit: int = 100
    ) -> Sequence[OpenMessage]:
        """Return open messages after the id `after`, ascending."""
        behind = "" if after is None else f"&after={after.hex()}"
        path = f"{_path(topic_id, name)}/open?limit={limit}{behind}"
        answer = await self._calls.safely("GET", path)
        with of_the_server():
            return bodies.decode_open(answer)

    async def seek(self, topic_id: TopicId, name: str, to: Position) -> Group:
        """Drop all open messages, and continue from `to`; acks of earlier takes are refused."""
        path, body = f"{_path(topic_id, name)}/seek", bodies.encode_seek(to)
        answer = await self._calls.safely("POST", path, body, JSON)
        with of_the_server():
            return bodies.decode_group(answer, topic_id)

    async def skip(self, topic_id: TopicId, name: str, ids: Sequence[bytes]) -> int:
        """Settle open messages, whichever member has them; return how many were open."""
        path, body = f"{_path(topic_id, name)}/skip", json_interventions.encode_skip(ids)
        answer = await self._calls.once("POST", path, body, JSON)
        with of_the_server():
            return json_interventions.decode_skipped(answer)

    async def take_back(
        self,
        topic_id: TopicId,
        name: str,
        ids: Sequence[bytes] = (),
        *,
        member: str | None = None,
        failed: bool = False,
    ) -> int:
        """Take leased messages back from their members; return how many."""
        body = json_interventions.encode_release(ids, member, failed=failed)
        answer = await self._calls.once("POST", f"{_path(topic_id, name)}/release", body, JSON)
        with of_the_server():
            return json_interventions.decode_released(answer)

    async def dead_letters(
        self, topic_id: TopicId, name: str, *, after: bytes | None = None, limit: int = 100
    ) -> DeadLetters:
        """Return dead letters that were neither redriven nor dropped, after the id `after`."""
        behind = "" if after is None else f"&after={after.hex()}"
        path = f"{_path(topic_id, name)}/dead?limit={limit}{behind}"
        answer = await self._calls.safely("GET", path)
        with of_the_server():
            return json_dead_letters.decode_letters(answer, topic_id.name, name)

    async def redrive(
        self,
        topic_id: TopicId,
        name: str,
        ids: Sequence[bytes] | None = None,
        *,
        after: bytes | None = None,
        limit: int = 100,
        publish: bool = False,
    ) -> Redriven:
        """Deliver the messages of dead letters again, or publish them again."""
        body = json_dead_letters.encode_redrive(ids, after, limit, publish=publish)
        answer = await self._calls.once("POST", f"{_path(topic_id, name)}/dead/redrive", body, JSON)
        with of_the_server():
            return json_dead_letters.decode_redriven(answer)

    async def drop_dead_letters(self, topic_id: TopicId, name: str, ids: Sequence[bytes]) -> int:
        """Drop dead letters from the list; return how many there were."""
        path, body = f"{_path(topic_id, name)}/dead/drop", json_dead_letters.encode_drop(ids)
        answer = await self._calls.once("POST", path, body, JSON)
        with of_the_server():
            return json_dead_letters.decode_dropped(answer)


def _path(topic_id: TopicId, name: str) -> str:
    return f"{topic_path(topic_id)}/subscriptions/{check_subscription_name(name)}"
