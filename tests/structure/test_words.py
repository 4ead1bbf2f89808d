"""Words that a reader would have to read twice are not in what users read, nor begin a docstring.

This finds only the patterns that can be found: a subject that is a clause ("What is told"), "is no
X" for "is not a valid X", and the words that have a better one.
"""

import ast
import re
from collections.abc import Iterator, Mapping
from typing import Any

import click
import pytest
import typer

from api.app import OPERATIONS
from api.openapi.document import document_of
from tests.structure.sources import PRODUCT, ROOT, Source, sources
from tms.cli.main import app
from tms.core.errors.catalogue import CATALOGUE
from tms.settings import Settings

HEADLESS = r"(?:What|Who|Whose|Whoever|Of)"
SENTENCE = rf"(?:^|(?<=[.!:] )|(?<=\*\*)|(?<=\| )|(?<=- )){HEADLESS} [^?|]*?(?:[.;|]|$)"
BANNED = re.compile(
    rf"{SENTENCE}"
    r"|(?<!there )(?<!There )\b(?:is|are|was|were) no (?!longer\b|more\b)[a-z]+"
    r"|\b[Ww]ho asks\b"
    r"|\b(?:is|are) wanted\b"
    r"|\bnone of what\b"
    r"|\bstand(?:s|ing)? by\b"
    r"|\bhas come\b"
    r"|\bThat alone\b",
    re.MULTILINE,
)
"""A question is no sentence of this kind."""
HEAD = re.compile(r"(?:What|Of) ")
