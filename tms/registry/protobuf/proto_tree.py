"""Parses the text of a Protobuf file into its tree, with the library proto-schema-parser. Pure.

Comments are dropped. It differs from the library's own parser in four ways: the first mistake in a
text is an error; the values of options stay as they are written, so 0x1F is not text and an escape
is not escaped again; numbers of fields may be hexadecimal or octal; and groups have their options.
It replaces a private class of the library, so the library's version is pinned.
"""

import re
from dataclasses import dataclass, field
from typing import Any

from antlr4 import CommonTokenStream, InputStream
from antlr4.error.ErrorListener import ErrorListener
from google.protobuf.text_encoding import CEscape, CUnescape
from proto_schema_parser import ast
from proto_schema_parser.antlr.ProtobufLexer import ProtobufLexer
from proto_schema_parser.antlr.ProtobufParser import ProtobufParser
from proto_schema_parser.parser import _ASTConstructor

from tms.registry.questions.questions import InvalidSchema

_TEXTS = re.compile(r"""'((?:[^'\\]|\\.)*)'|"((?:[^"\\]|\\.)*)\"""", re.DOTALL)
_COMMENTS = re.compile(
    r"""("(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')|//[^\n]*|/\*.*?\*/""", re.DOTALL
)
_NUMBERS = re.compile(r"0[xX][0-9a-fA-F]+|[0-9]+|[a-z]+|-")
_UNESCAPED = re.compile(r"""(\\.)|(")""", re.DOTALL)


@dataclass(frozen=True)
class Quoted:
    """A text in a file."""

    raw: str
    """The text between double quotes, with its escapes."""

    @classmethod
    def of(cls, literal: str) -> "Quoted":
        """Return the literal of one or more adjacent texts."""
        parts = [
            double or _UNESCAPED.sub(_for_double_quotes, single)
            for single, double in _TEXTS.findall(literal)
        ]
        joined, said = cls("".join(parts)), b"".join(map(CUnescape, parts))
        # An escape at the end of one text may take the first digits of the next one.
        return joined if CUnescape(joined.raw) == said else cls.of_bytes(said)

    @classmethod
    def holding(cls, text: str) -> "Quoted":
        """Return the literal of `text`."""
        return cls(CEscape(text.encode(), as_utf8=True))

    @classmethod
    def of_bytes(cls, data: bytes) -> "Quoted":
        """Return the literal of bytes."""
        return cls(CEscape(data, as_utf8=False))

    @property
    def text(self) -> str:
        """The text, without escapes."""
        return CUnescape(self.raw).decode(errors="replace")


def _for_double_quotes(match: re.Match[str]) -> str:
    return match[1] or '\\"'


@dataclass
class ProtoGroup(ast.Group):
    """A group, with its options."""

    options: list[ast.Option] = field(default_factory=list)


_NUMBERED = (
    ProtobufParser.FieldNumberContext,
    ProtobufParser.EnumValueNumberContext,
    ProtobufParser.TagRangeContext,
    ProtobufParser.EnumValueRangeContext,
)
_QUOTED = (
    ProtobufParser.ImportedFileNameContext,
    ProtobufParser.StringLiteralContext,
    ProtobufParser.SyntaxLevelContext,
    ProtobufParser.EditionLevelContext,
)


class _Trees(_ASTConstructor):
    def _getText(  # noqa: N802  as the library calls it
        self,
        ctx: Any,
        strip_quotes: bool = True,  # noqa: ARG002, FBT001, FBT002
    ) -> str:
        """Return a name, a number, or the content of a string, for the library's own methods."""
        source = ctx.start.getTokenSource().inputStream
        text = str(source.getText(ctx.start.start, ctx.stop.stop))
        if isinstance(ctx, _QUOTED):
            return Quoted.of(text).text
        if isinstance(ctx, _NUMBERED):
            return " ".join(map(_decimal, _NUMBERS.findall(text))).replace("- ", "-")
        return "".join(text.split())

    def visitScalarValue(self, ctx: Any) -> Any:  # noqa: N802  as the library calls it
        """Return the value of an option, or of a part of one."""
        if ctx.stringLiteral():
            source = ctx.start.getTokenSource().inputStream
            return Quoted.of(source.getText(ctx.start.start, ctx.stop.stop))
        text = self._getText(ctx)
        return text == "true" if text in ("true", "false") else ast.Identifier(text)

    def visitMessageLiteral(self, ctx: Any) -> Any:  # noqa: N802  as the library calls it
        """Return a message as the value of an option, in braces or angle brackets."""
        inner = ctx.messageLiteralWithBraces()
        return self.visit(ctx.messageTextFormat() if inner is None else inner)

    def visitGroupDecl(self, ctx: Any) -> Any:  # noqa: N802  as the library calls it
        """Return a group."""
        return self._with_options(super().visitGroupDecl(ctx), ctx)

    def visitOneofGroupDecl(self, ctx: Any) -> Any:  # noqa: N802  as the library calls it
        """Return a group in a oneof."""
        return self._with_options(super().visitOneofGroupDecl(ctx), ctx)

    def _with_options(self, group: ast.Group, ctx: Any) -> ProtoGroup:
        compact = ctx.compactOptions()
        visit: Any = self.visit
        options: list[ast.Option] = visit(compact) if compact else []
        return ProtoGroup(group.name, group.number, group.cardinality, group.elements, options)


def _decimal(token: str) -> str:
    """Return a number as decimal; a word as it is."""
    if token.startswith(("0x", "0X")):
        return str(int(token, 16))
    return str(int(token, 8)) if re.fullmatch("0[0-7]+", token) else token


def _without_comments(text: str) -> str:
    """Return a text with spaces in place of comments."""
    return _COMMENTS.sub(lambda match: match[1] or re.sub(r"[^\n]", " ", match[0]), text)


class _Refusing(ErrorListener):
    """Raises at the first mistake, instead of continuing like the parser."""

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
    lexer = ProtobufLexer(InputStream(_without_comments(text)))
    parser: Any = ProtobufParser(CommonTokenStream(lexer))
    for recognizer in (lexer, parser):
        recognizer.removeErrorListeners()
        recognizer.addErrorListener(_Refusing())
    trees: Any = _Trees()
    file: ast.File = trees.visit(parser.file_())
    return file
