"""Rules that stand in one place alone."""

import ast

from tests.structure.sources import PRODUCT, sources

TTL_PLACES = {"tms/core/topic.py", "cleanup/inspection.py"}
"""The rule of what has expired (`TopicMetadata.first_live_ms`, `dies_ms`); or it shows a topic."""


def test_only_a_topic_says_what_has_expired() -> None:
    places = {
        source.place
        for source in sources(*PRODUCT)
        for node in ast.walk(source.tree)
        if isinstance(node, ast.Attribute) and node.attr == "ttl_s"
    }

    assert places == TTL_PLACES
