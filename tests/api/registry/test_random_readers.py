"""Under random rules and requests, no answer has a word of a schema that its caller may not read.

Each subject has words of its own in its schemas. The caller has random rules, and makes any
request: by name, alias, id, guid and context, in all forms, by payloads, and by writing and
importing. A naive reading of the rules says which words each answer may have, and what may have
changed.

Half of the requests are drawn from those that could reveal a word: other forms of schemas with
references, schemas that do not fit, and payloads with existing ids. The rules allow some of the
requests, but not all reads.
"""

import asyncio
import json
import random
import re
from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import Any

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from api.http.metrics import RestMetrics
from api.registry.application import create_registry_app
from tests.api.registry.live import LIMITS as SCHEMA_LIMITS
from tests.api.registry.secured_registry import Secured
from tests.api.rest import NOW_MS
from tests.api.security.secured import LIMITS, ROOT, opened_server, serving_server
from tests.manual_clock import ManualClock
from tests.registry.registries import opened
from tests.scale import scaled
from tests.security.drawn_rules import SUBJECT_PATTERNS, naive
from tms.core.errors import NotPermitted, PayloadRefused
from tms.core.services.payload_values import ValueToEncode
from tms.core.values.caller import Caller
from tms.core.values.message import Message
from tms.core.values.topic import TopicId
from tms.core.values.topic_schemas import SchemaCheck, SubjectStrategy, TopicSchemas
from tms.registry.checking.checker import ThreadChecker
from tms.registry.payload_values import RegistryValues
from tms.registry.state.subjects import context_of, scope_of_context
from tms.security.resources import ACTIONS_OF, Action, Kind, subject_resource
from tms.security.rules import Effect, Identity, Rule
from tms.serdes.wire_format import start_of

EXAMPLES = scaled(10)
REQUESTS = 100
REFERS = {"ab": "a", "b": "ab", ":.a:b": ":.a:a", ":.b:a": "b"}
"""The subjects that refer to others, by whose types their own are made."""
SUBJECTS = ("a", *REFERS, ":.a:a")
WORD = re.compile(r"w([0-9]+)w")
RULES = st.builds(
    Rule,
    st.uuids().map(str),
    st.just("ann"),
    st.sampled_from([Effect.ALLOW, Effect.ALLOW, Effect.ALLOW, Effect.DENY]),
    st.frozensets(st.sampled_from(sorted(ACTIONS_OF[Kind.SUBJECT])), min_size=1, max_size=2),
    st.just(Kind.SUBJECT),
    st.just(""),
    SUBJECT_PATTERNS | st.sampled_from(SUBJECTS),
)
NEAR_RULES = st.tuples(
    st.lists(RULES, max_size=4),
    st.sampled_from(sorted(REFERS)),
    st.sampled_from([*SUBJECTS, "a", ":.a:a"]),
).map(lambda drawn: [*drawn[0], allowing("read", drawn[1]), allowing("write", drawn[2])])
"""Some subjects can be read, others written, and a few more rules are random."""
TAGS = [{"schemaEntity": {"entityPath": "n.Mine", "entityType": "sr_record"}, "tags": ["t"]}]


def allowing(action: str, subject: str) -> Rule:
    told = f"{action} {subject}"
    return Rule(told, "ann", Effect.ALLOW, frozenset([Action(action)]), Kind.SUBJECT, "", subject)


def kind_of(subject: str) -> str:
    """Return the name of a subject's type, which also occurs in the texts that refer to it."""
    return f"n.R{SUBJECTS.index(subject)}"


def body_of(subject: str) -> dict[str, Any]:
    """Return a schema whose words are all of one subject."""
    word, target = f"w{SUBJECTS.index(subject)}w", REFERS.get(subject)
    kind = "int" if target is None else kind_of(target)
    fields = [{"name": f"f_{word}", "type": kind}]
    made: dict[str, Any] = {"metadata": {"properties": {"m": word}}}
    if target is not None:
        made["references"] = [{"name": kind, "subject": target, "version": 1}]
        if target == "b":
            made["references"][0]["subject"] = ":.:b"
    text = {"type": "record", "name": kind_of(subject), "fields": fields, "confluent:tags": [word]}
    return {"schema": json.dumps(text), **made}


class Asking:
    """A caller that makes random requests, and checks each answer."""

    def __init__(self, secured: Secured, rules: list[Rule], seed: int) -> None:
        self.secured = secured
        self.rules = rules
        self.draw = random.Random(seed)
        self.values = RegistryValues(secured.registry, ThreadChecker())
        self.guids: list[str] = []

    def may(self, action: str, subject: str) -> bool:
        resource = subject_resource(subject or None)
        return naive(self.rules, Identity("ann"), Action(action), resource, None)

    def one(self, *choices: Any) -> Any:
        return self.draw.choice(choices)

    async def fill(self) -> None:
        root = await self.secured.headers(ROOT)
        for subject in ("a", "ab", "b", ":.a:a", ":.a:b", ":.b:a"):
            path = f"/subjects/{subject}/versions"
            assert (await self.secured.call(root, path, body_of(subject)))[0] == 200
            state = self.secured.registry.state
            latest = state.latest(subject)
            assert latest is not None
            self.guids.append(latest.schema.guid)
        for path in ("/subjects/:.b:a", "/subjects/:.a:b"):  # including soft-deleted ones
            assert (await self.secured.call(root, path, method="DELETE"))[0] == 200

    def near_request(self) -> tuple[str, str, Any]:
        """Return a request whose answer has unreadable words if nothing checks the rules."""
        one, state = self.one, self.secured.registry.state
        written = [each for each in SUBJECTS if self.may("write", each)]
        asked = one(one(*REFERS), one(*written or SUBJECTS))
        form = one("format=resolved", "format=resolved&findTags=true", "findTags=true")
        version = f"/subjects/{asked}/versions/{one('1', 'latest')}"
        latest = state.latest(asked)
        schema_id = 1 if latest is None else latest.id
        hint = f"&subject={one(asked, ':.a:', ':.b:')}"
        text = {"type": "record", "name": kind_of(asked), "fields": [{"name": "n", "type": "int"}]}
        unfit = {"schema": json.dumps(text)}
        same = body_of(asked)
        paths = (
            ("GET", f"{version}{one('', '/schema')}?{form}", None),
            ("GET", f"/schemas/ids/{schema_id}{one('', '/schema')}?{form}{hint}", None),
            ("GET", f"/schemas/guids/{one(*self.guids)}?{form}", None),
            (
                "POST",
                f"/subjects/{asked}/versions?{form}",
                one(unfit, same, {}, {"schemaTagsToAdd": TAGS}),
            ),
            ("POST", f"/compatibility{version}?verbose=true", unfit),
            ("POST", f"/subjects/{asked}?{form}", same),
        )
        return one(*paths)  # type: ignore[no-any-return]

    def request(self) -> tuple[str, str, Any]:
        one = self.one
        subject = one(*SUBJECTS, "mine", ":.a:mine", ":.::.a:b", ":.:b", ":.a:", "")
        prefix = one("", "", "/contexts/.a", "/contexts/.b", "/contexts/.")
        deep = one("", "", "&format=resolved", "&findTags=true", "&fetchMaxId=true")
        query = f"?{one('', 'deleted=true', 'normalize=true', 'verbose=true')}{deep}"
        target = one(*SUBJECTS)
        references = [{"name": kind_of(target), "subject": target, "version": one(1, -1)}]
        mine = {"type": "record", "name": "n.Mine", "fields": []}
        using = {**mine, "fields": [{"name": "x", "type": references[0]["name"]}]}
        body = one(
            {"schema": json.dumps(mine)},
            {"schema": json.dumps(using), "references": references},
            {"schemaTagsToAdd": TAGS},
            {"schema": json.dumps(mine), "propagateSchemaTags": True},
            {"schema": '"int"', "id": one(1, 2, 90), "version": one(1, 2, 3)},
            {},
        )
        version = f"/subjects/{subject}/versions/{one('1', 'latest', '2')}"
        by_id, hint = f"/schemas/ids/{one(1, 2, 3, 4)}", f"{query}&subject={one('', *SUBJECTS)}"
        paths = (
            ("GET", one("/contexts", "/subjects", "/schemas") + query, None),
            ("GET", f"/subjects/{subject}{one('/versions', '/metadata')}{query}", None),
            ("GET", f"{version}{one('', '/schema', '/referencedby')}{query}", None),
            ("GET", f"{by_id}{one('', '/schema', '/subjects', '/versions')}{hint}", None),
            ("GET", f"/schemas/guids/{one(*self.guids)}{one('', '/ids')}{query}", None),
            ("GET", f"{one('/config', '/mode')}/{subject}?defaultToGlobal=true", None),
            ("POST", f"/subjects/{subject}{one('', '/versions', '/versions')}{query}", body),
            ("POST", f"/compatibility{version}{query}", body),
            ("POST", f"{version}/tags", {"tagsToAdd": TAGS}),
            ("PUT", f"/mode/{subject}?force=true", {"mode": one("IMPORT", "IMPORT", "READWRITE")}),
            ("PUT", f"/config/{subject}", {"alias": target, "compatibility": one("NONE", "FULL")}),
            ("DELETE", f"/subjects/{subject}?permanent={one('true', 'false')}", None),
        )
        method, path, given = one(*paths)
        return method, prefix + path, given

    async def ask(self) -> None:
        headers = await self.secured.headers("ann")
        for _ in range(REQUESTS):
            before = self.versions()
            method, path, body = self.one(self.near_request, self.request)()
            answer = await self.secured.server.http.request(
                method, path, json=body, headers=headers
            )
            told = f"{method} {path} {body}: {answer.status_code} {answer.text}"
            assert answer.status_code < 500, told
            self.look(answer.text, told)
            if answer.is_success:
                self.look_at_names(path, answer.text, told)
            for subject, number in before - self.versions():
                assert self.may("delete", subject), f"{subject} {number} is gone: {told}"
            await self.ask_by_payload()

    def versions(self) -> set[tuple[str, int]]:
        subjects = self.secured.registry.state.subjects
        return {(subject, number) for subject, found in subjects.items() for number in found}

    def look(self, text: str, told: str) -> None:
        for word in set(WORD.findall(text)):
            subject = SUBJECTS[int(word)]
            assert self.may("read", subject), f"a word of {subject} in {told}"

    def look_at_names(self, path: str, text: str, told: str) -> None:
        bare = re.sub(r"^/contexts/\.\w*(?=/)", "", path.partition("?")[0])
        if bare == "/contexts":
            subjects = [*self.secured.registry.state.subjects]
            for context in json.loads(text):
                within = [each for each in subjects if context_of(each) == context]
                wanted = [scope_of_context(context), *within]
                assert any(self.may("read", each) for each in wanted), told
        elif bare.endswith("/subjects") and isinstance(names := json.loads(text), list):
            assert all(self.may("read", each) for each in names), told

    async def ask_by_payload(self) -> None:
        """Decode, encode and check payloads of the caller's own topic."""
        one, caller = self.one, Caller("ann", may_on_subject=self.may)
        topic = TopicSchemas(
            TopicId("ns", "mine"),
            subject=one(None, *SUBJECTS, "mine"),
            strategy=one(*SubjectStrategy),
            check=one(SchemaCheck.ID, SchemaCheck.FULL),
        )
        spaces = self.secured.registry.state.subjects.values()
        ids = {version.id for found in spaces for version in found.values()}
        body = start_of(one(*sorted(ids), 90)) + one(b"\x02", b"\x02", b"\x80", b"")
        asked: Callable[[], Any] = one(
            lambda: self.values.decoded(topic, [Message(body)], caller=caller),
            lambda: self.values.decoded(topic, [Message(body)], caller=caller),
            lambda: self.values.check(topic, [body], caller=caller),
            lambda: self.values.encoded(topic, {0: ValueToEncode(one(b"{}", b"7"))}, caller=caller),
        )
        try:
            told = repr(await asked())
        except NotPermitted as error:
            told = str(error.detail)
        except PayloadRefused as error:
            told = str(error.detail)
        self.look(told, f"{topic} {body!r}: {told}")


async def histories(rules: list[Rule], seed: int) -> None:
    clock = ManualClock(NOW_MS)
    async with AsyncExitStack() as stack:
        server = await opened_server(stack, f"readers{seed}", clock)
        registries = await stack.enter_async_context(opened())
        registry = registries.make(limits=SCHEMA_LIMITS).registry
        app = create_registry_app(registry, LIMITS, RestMetrics(), access=server.access)
        await stack.enter_async_context(serving_server(server, app))
        for rule in rules:
            await server.grants.add_rule(rule)
        asking = Asking(Secured(server, registry, registries), rules, seed)
        await asking.fill()
        await asking.ask()


@settings(
    max_examples=EXAMPLES,
    derandomize=True,
    database=None,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.generate],  # no shrinking: an example takes a second
)
@given(rules=NEAR_RULES, seed=st.integers(0, 2**32))
def test_nothing_is_said_about_what_one_may_not_read(rules: list[Rule], seed: int) -> None:
    asyncio.run(histories(rules, seed))
