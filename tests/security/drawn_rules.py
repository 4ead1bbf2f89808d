"""Rules, identities and resources of few names, so that they meet."""

from hypothesis import strategies as st

from tms.security.resources import ACTIONS_OF, SERVER, Action, Kind
from tms.security.resources import subject_resource as subject
from tms.security.resources import topic_resource as topic
from tms.security.rules import Effect, Identity, Rule

NAMES = st.text("ab", min_size=1, max_size=3)
PATTERNS = st.one_of(NAMES, NAMES.map("{}*".format), st.just("*"))
WHO = st.one_of(
    st.sampled_from(["ann", "bob", "*"]), st.sampled_from(["g", "h"]).map("group:{}".format)
)
IDENTITIES = st.builds(
    Identity, st.sampled_from(["ann", "bob", "eve", "g"]), st.frozensets(st.sampled_from("gh"))
)
RESOURCES = st.one_of(
    st.just(SERVER), st.builds(topic, NAMES, st.none() | NAMES), st.builds(subject, NAMES)
)


@st.composite
def rules(draw: st.DrawFn) -> Rule:
    kind = draw(st.sampled_from(Kind))
    actions = draw(st.frozensets(st.sampled_from(sorted(ACTIONS_OF[kind])), min_size=1))
    has_one = actions == {Action.SUBSCRIBE}
    return Rule(
        draw(st.uuids().map(str)),
        draw(WHO),
        draw(st.sampled_from(Effect)),
        actions,
        kind,
        draw(PATTERNS) if kind is Kind.TOPIC else "",
        "" if kind is Kind.SERVER else draw(PATTERNS),
        draw(PATTERNS) if has_one else "*",
    )
