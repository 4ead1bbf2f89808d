"""From the text of a Protobuf file to its tree, by the library proto-schema-parser. Pure.

Two things differ from what that library's own parser gives. The first mistake in a text is an
error. And the values of options stay as they are written: 0x1F is no text, and an escape in a text
is not escaped once more. For that it takes the place of a private class of the library, so the
version of that is fixed.
"""

import re
from dataclasses import dataclass
from typing import Any

from antlr4 import CommonTokenStream, InputStream
from antlr4.error.ErrorListener import ErrorListener
from google.protobuf.text_encoding import CEscape, CUnescape
from proto_schema_parser import ast
from proto_schema_parser.antlr.ProtobufLexer import ProtobufLexer
from proto_schema_parser.antlr.ProtobufParser import ProtobufParser
from proto_schema_parser.parser import _ASTConstructor

from tms.registry.questions import InvalidSchema

_TEXTS = re.compile(r"""'((?:[^'\\]|\\.)*)'|"((?:[^"\\]|\\.)*)\"""", re.DOTALL)
_UNESCAPED = re.compile(r"""(\\.)|(")""", re.DOTALL)


@dataclass(frozen=True)
class Quoted:
    """A text in a file."""

    raw: str
    """What stands between double quotes, with its escapes."""

    @classmethod
    def of(cls, literal: str) -> "Quoted":
        """Return a literal of one or more texts side by side."""
        parts = []
        for single, double in _TEXTS.findall(literal):
            parts.append(double or _UNESCAPED.sub(_for_double_quotes, single))
        return cls("".join(parts))

    @classmethod
    def holding(cls, text: str) -> "Quoted":
        """Return the text that says `text`."""
        return cls(CEscape(text.encode(), as_utf8=True))

    @property
    def text(self) -> str:
        """What it says."""
        return CUnescape(self.raw).decode(errors="replace")


def _for_double_quotes(match: re.Match[str]) -> str:
    return match[1] or '\\"'


class _Trees(_ASTConstructor):
    def visitScalarValue(self, ctx: Any) -> Any:  # noqa: N802  as the library calls it
        """Return the value of an option, or of a part of one."""
        text = self._getText(ctx, strip_quotes=False)
        if ctx.stringLiteral():
            start, stop = ctx.start.start, ctx.stop.stop
            return Quoted.of(ctx.start.getTokenSource().inputStream.getText(start, stop))
        return text == "true" if text in ("true", "false") else ast.Identifier(text)


class _Refusing(ErrorListener):
    """Raises at the first mistake, where the parser would go on."""

    def syntaxError(  # noqa: N802, PLR0917  as the parser calls it
        self,
        recognizer: object,  # noqa: ARG002
        offendingSymbol: object,  # noqa: ARG002, N803
        line: int,
        column: int,
        msg: str,
        e: object,  # noqa: ARG002
    ) -> None:
        """Say where the mistake is."""
        raise InvalidSchema(f"line {line}, column {column + 1}: {msg}")


def tree_of(text: str) -> ast.File:
    """Return the tree of a text. Raises `InvalidSchema`, `ValueError`, `RecursionError`."""
    lexer = ProtobufLexer(InputStream(text))
    parser: Any = ProtobufParser(CommonTokenStream(lexer))
    for recognizer in (lexer, parser):
        recognizer.removeErrorListeners()
        recognizer.addErrorListener(_Refusing())
    trees: Any = _Trees()
    file: ast.File = trees.visit(parser.file_())
    return file
