"""Protobuf files as a strategy of hypothesis, and changes to them."""

from dataclasses import dataclass, field, replace

from hypothesis import strategies as st

SCALARS = (
    *("double", "float", "int32", "int64", "uint32", "uint64", "sint32", "sint64"),
    *("fixed32", "fixed64", "sfixed32", "sfixed64", "bool", "string", "bytes"),
)
KEYS = tuple(each for each in SCALARS if each not in ("double", "float", "bytes"))
LABELS = {"proto2": ("optional", "repeated", "required"), "proto3": ("", "optional", "repeated")}


@dataclass(frozen=True)
class FileField:
    """A field, in a oneof or in none."""

    tag: int
    name: str
    type: str
    """A scalar, a message (`In`, `M`), an enum (`E`), or `map<…>`."""
    label: str = ""
    oneof: str = ""
    options: tuple[str, ...] = ()

    @property
    def line(self) -> str:
        label = "" if self.oneof or self.type.startswith("map") else self.label
        options = f" [{', '.join(self.options)}]" if self.options else ""
        return f"{label} {self.type} {self.name} = {self.tag}{options};\n"


@dataclass(frozen=True)
class File:
    """A file with a message `M`, in it a message `In`, and an enum `E`."""

    syntax: str
    fields: tuple[FileField, ...]
    inner: tuple[FileField, ...]
    package: str = "p.q"
    extras: tuple[str, ...] = field(default=())

    @property
    def text(self) -> str:
        package = f"package {self.package};" if self.package else ""
        return (
            f'syntax = "{self.syntax}"; {package}\n'
            "enum E { A = 0; B = 1; }\n"
            f"message M {{ message In {{ {_lines(self.inner)} }}\n{_lines(self.fields)}\n"
            f"{' '.join(self.extras)} }}\n"
        )


def _lines(fields: tuple[FileField, ...]) -> str:
    plain = [each.line for each in fields if not each.oneof]
    oneofs = {each.oneof: [] for each in fields if each.oneof}  # type: dict[str, list[str]]
    for each in fields:
        if each.oneof:
            oneofs[each.oneof].append(each.line)
    return "".join(plain) + "".join(f"oneof {n} {{ {''.join(e)} }}\n" for n, e in oneofs.items())


TYPES = st.one_of(
    st.sampled_from(SCALARS),
    st.sampled_from(["E", "In", "M", ".p.q.M.In", "q.E"]),
    st.builds(
        lambda key, value: f"map<{key}, {value}>",
        st.sampled_from(KEYS),
        st.sampled_from([*SCALARS, "In", "E"]),
    ),
)


@st.composite
def fields(draw: st.DrawFn, syntax: str) -> tuple[FileField, ...]:
    """Generate fields with distinct tags."""
    tags = draw(st.lists(st.integers(1, 12), max_size=5, unique=True))
    return tuple(draw(one_field(syntax, tag)) for tag in tags)


@st.composite
def one_field(draw: st.DrawFn, syntax: str, tag: int) -> FileField:
    """Generate a field with this tag."""
    kind = draw(TYPES)
    is_map = kind.startswith("map")
    label = draw(st.sampled_from(LABELS[syntax]))
    if label == "required" and kind in ("M", "In", ".p.q.M.In"):
        label = "optional"  # a message that requires itself can never be complete
    oneof = "" if is_map else draw(st.sampled_from(["", "", "", "one", "two"]))
    options: tuple[str, ...] = draw(st.sampled_from([(), (), ("deprecated = true",)]))
    if syntax == "proto2" and kind == "string" and not oneof and label != "repeated":
        options = (*options, draw(st.sampled_from(["default = 'a\"b'", 'default = "\\"\\n\\x41"'])))
    if syntax == "proto2" and kind == "bytes" and not oneof and label != "repeated":
        options = (*options, 'default = "\\001\\377"')
    return FileField(tag, f"f{tag}", kind, label, oneof, options)


EXTRAS = {
    "proto2": (
        *("reserved 100, 110 to 120;", 'reserved "gone";', "extensions 200 to max;"),
        *("optional group G = 50 { optional int32 z = 1; }", "option deprecated = true;"),
    ),
    "proto3": ("reserved 100 to 200;", 'reserved "gone", "more";', "option deprecated = false;"),
}


@st.composite
def files(draw: st.DrawFn) -> File:
    """Give files."""
    syntax = draw(st.sampled_from(["proto2", "proto3"]))
    extras = draw(st.sets(st.sampled_from(EXTRAS[syntax]))) if draw(st.booleans()) else ()
    return File(
        syntax,
        draw(fields(syntax)),
        draw(fields(syntax).map(lambda each: tuple(f for f in each if f.type in SCALARS))),
        extras=tuple(sorted(extras)),
    )


@st.composite
def pairs(draw: st.DrawFn) -> tuple[File, File]:
    """Generate a file, and the same file with one or two changes to its fields."""
    old = draw(files())
    new = old
    for _ in range(draw(st.integers(1, 2))):
        tag = draw(st.integers(1, 12))
        where = draw(st.sampled_from(["fields", "fields", "inner"]))
        there: tuple[FileField, ...] = getattr(new, where)
        others = tuple(each for each in there if each.tag != tag)
        change = draw(st.sampled_from(["remove", "put", "put", "type", "oneof"]))
        had = [each for each in there if each.tag == tag]
        added = _changed(draw, change, had, old.syntax, tag)
        if where == "inner":
            added = tuple(each for each in added if each.type in SCALARS)
        if where == "inner":
            new = replace(new, inner=others + added)
        else:
            new = replace(new, fields=others + added)
    return old, new


def _changed(
    draw: st.DrawFn, change: str, had: list[FileField], syntax: str, tag: int
) -> tuple[FileField, ...]:
    if change == "remove":
        return ()
    if change == "type" and had and not had[0].options:
        return (replace(had[0], type=draw(st.sampled_from(SCALARS))),)
    if change == "oneof" and had and not had[0].type.startswith("map") and not had[0].options:
        return (replace(had[0], oneof=draw(st.sampled_from(["", "one", "two"]))),)
    return (draw(one_field(syntax, tag)),)
