"""Protobuf files with options wherever they are allowed, as a strategy of hypothesis.

What defines the options is a file that they import.
"""

from hypothesis import strategies as st

KINDS = (
    *("File", "Message", "Field", "Oneof", "Enum", "EnumValue"),
    *("Service", "Method", "ExtensionRange"),
)
EXTENSIONS = "\n".join(
    f"extend google.protobuf.{kind}Options {{ optional int32 {kind}_int = 50001; "
    f"optional string {kind}_text = 50002; repeated string {kind}_many = 50003; "
    f"optional Opt {kind}_opt = 50004; optional OptE {kind}_enum = 50005; "
    f"optional double {kind}_double = 50006; optional bytes {kind}_bytes = 50007; "
    f"optional sint64 {kind}_long = 50008; optional bool {kind}_bool = 50009; "
    f"optional float {kind}_float = 50010; repeated Opt {kind}_opts = 50011; }}"
    for kind in KINDS
)
TYPES = """
enum OptE { ZERO = 0; ONE = 1; MINUS = -1; }
message Opt {
  optional int32 i = 1; repeated string s = 2; optional Opt inner = 3; repeated Opt inners = 4;
  map<string, int32> m = 5; optional OptE e = 6; optional bytes b = 7; optional double d = 8;
  optional uint64 u = 9; optional google.protobuf.Any any = 10; map<int32, Opt> mm = 11;
  extensions 100 to 200;
}
extend Opt { optional string more = 100; optional Opt most = 101; }
"""
OPTIONS = f"""syntax = "proto2"; package o.p;
import "google/protobuf/descriptor.proto"; import "google/protobuf/any.proto";
{TYPES} {EXTENSIONS}
"""
"""A file that defines options of all kinds."""
OPTIONS_NAME = "options.proto"

TEXTS = st.sampled_from(
    [
        '"a"',
        "'b\"c'",
        '"\\x41\\n\\"" \'d\'',
        '"é"',
        '"\\303\\251"',
        '"\\1" "2"',
        '""',
        '"\\u00e9/*"',
    ]
)
BYTES = st.sampled_from(['"\\001\\377"', "'x'", '"\\x00" "1"', '""'])
INTS = st.sampled_from(["0", "1", "-5", "0x1F", "-0x2", "017", "2147483647", "-2147483648"])
LONGS = st.sampled_from(["-9223372036854775808", "9223372036854775807", "0x7fffffffffffffff"])
DOUBLES = st.sampled_from(["1", "-2.5", "1e3", ".5", "1.", "inf", "-inf", "nan", "1e-7", "0x10"])
BOOLS = st.sampled_from(["true", "false"])
ENUMS = st.sampled_from(["ZERO", "ONE", "MINUS"])


def parts(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """Generate messages in text format."""
    braced = st.sampled_from(["{{ {} }}", "< {} >"])
    part = st.one_of(
        INTS.map(lambda each: f"i: {each}"),
        TEXTS.map(lambda each: f"s: {each}"),
        st.lists(TEXTS, max_size=2).map(lambda each: f"s: [{', '.join(each)}]"),
        st.builds(lambda form, each: f"inner {form.format(each)}", braced, inner),
        st.builds(lambda form, each: f"inner: {form.format(each)}", braced, inner),
        st.lists(inner, max_size=2).map(
            lambda each: f"inners: [{', '.join('{' + part + '}' for part in each)}]"
        ),
        st.builds(lambda key, value: f"m {{ key: {key} value: {value} }}", TEXTS, INTS),
        st.builds(lambda key, value: f"mm {{ key: {key} value {{ {value} }} }}", INTS, inner),
        ENUMS.map(lambda each: f"e: {each}"),
        BYTES.map(lambda each: f"b: {each}"),
        DOUBLES.filter(lambda each: each != "0x10").map(lambda each: f"d: {each}"),
        st.just("u: 18446744073709551615"),
        TEXTS.map(lambda each: f"[o.p.more]: {each}"),
        inner.map(lambda each: f"[o.p.most] {{ {each} }}"),
        inner.map(lambda each: f"any {{ [type.googleapis.com/o.p.Opt] {{ {each} }} }}"),
    )
    separator = st.sampled_from([" ", ", ", "; ", " // more\n"])
    return st.builds(
        lambda between, each: between.join(each),
        separator,
        st.lists(part, max_size=3, unique_by=lambda each: each[:2]),
    )


MESSAGES = st.recursive(st.just(""), parts, max_leaves=4)
BUILT_IN = {
    "File": [
        *('java_package = "a.b"', "optimize_for = CODE_SIZE", "java_multiple_files = true"),
        *("deprecated = true", 'go_package = "x/y;z"', "cc_enable_arenas = false"),
    ],
    "Message": ["deprecated = true", "no_standard_descriptor_accessor = true"],
    "Field": ["deprecated = true", "jstype = JS_STRING", "ctype = CORD", "debug_redact = true"],
    "Oneof": [],
    "Enum": ["deprecated = true"],
    "EnumValue": ["deprecated = true", "debug_redact = false"],
    "Service": ["deprecated = true"],
    "Method": ["deprecated = true", "idempotency_level = IDEMPOTENT"],
    "ExtensionRange": ["verification = UNVERIFIED"],
}


@st.composite
def options(draw: st.DrawFn, kind: str, without: str = "") -> list[str]:
    """Generate options of a kind; those that may occur only once do so."""
    dot = draw(st.sampled_from(["", ".o.p.", "p."]))
    own = {
        f"({dot}{kind}_int)": INTS,
        f"({dot}{kind}_text)": TEXTS,
        f"({dot}{kind}_enum)": ENUMS,
        f"({dot}{kind}_double)": DOUBLES,
        f"({dot}{kind}_bytes)": BYTES,
        f"({dot}{kind}_long)": LONGS,
        f"({dot}{kind}_bool)": BOOLS,
        f"({dot}{kind}_float)": DOUBLES,
        f"({dot}{kind}_opt)": MESSAGES.map(lambda each: f"{{ {each} }}"),
        f"({dot}{kind}_opt).inner.i": INTS,
        f"({dot}{kind}_opt).(o.p.more)": TEXTS,
        f"({dot}{kind}_opt).(o.p.most).d": DOUBLES,
    }
    many = {
        f"({dot}{kind}_many)": TEXTS,
        f"({dot}{kind}_opts)": MESSAGES.map(lambda each: f"{{ {each} }}"),
    }
    names = draw(st.sets(st.sampled_from(sorted(own)), max_size=3))
    if any(name.endswith("_opt)") for name in names):
        names = {name for name in names if "_opt)." not in name}
    found = [f"{name} = {draw(own[name])}" for name in sorted(names)]
    repeated = draw(st.lists(st.sampled_from(sorted(many)), max_size=3))
    found += [f"{name} = {draw(many[name])}" for name in repeated]
    built_in = (
        [each for each in BUILT_IN[kind] if without not in each] if without else BUILT_IN[kind]
    )
    if built_in:
        found += draw(st.lists(st.sampled_from(built_in), max_size=1))
    return list(draw(st.permutations(found)))


@st.composite
def lines(draw: st.DrawFn, kind: str) -> str:
    """Generate options, each on a line of its own."""
    return " ".join(f"option {each};" for each in draw(options(kind)))


@st.composite
def compact(draw: st.DrawFn, kind: str, *more: str, without: str = "") -> str:
    """Give options in brackets."""
    found = [*draw(options(kind, without)), *(each for each in more if draw(st.booleans()))]
    return f" [{', '.join(found)}]" if found else ""


@st.composite
def files_with_options(draw: st.DrawFn) -> str:
    """Generate files whose options are those of `OPTIONS`."""
    named, other = 'json_name = "n@me"', "json_name = '1 \"'"
    field = draw(compact("Field", named, "default = 0x1F", without="type"))
    return f"""syntax = "proto2"; package o.p; import "{OPTIONS_NAME}"; {draw(lines("File"))}
message M {{ {draw(lines("Message"))}
  optional int32 f_a = 1{field};
  repeated string g_B = 0x2{draw(compact("Field", other, without="jstype"))};
  map<int32, Opt> hh = 03{draw(compact("Field", without="type"))};
  optional group G = 4{draw(compact("Field", without="type"))} {{
    {draw(lines("Message"))} optional int64 z = 1;
  }}
  oneof x {{
    {draw(lines("Oneof"))} string y = 5{draw(compact("Field", without="jstype"))};
    group H = 6 {{ {draw(lines("Message"))} }}
  }}
  extensions 100 to 110, 0xC8{draw(compact("ExtensionRange"))};
  reserved 50, 60 to 70; reserved "gone", 'more';
  enum In {{
    {draw(lines("Enum"))} P = 0{draw(compact("EnumValue"))};
    Q = 0x7; reserved -5 to -1, 100 to max;
  }}
  message N {{
    extend M {{
      optional In i = 101{draw(compact("Field", without="type"))}; repeated group K = 102 {{ }}
    }}
  }}
}}
extend M {{ optional M.In j = 105{draw(compact("Field", without="type"))}; }}
service S {{
  {draw(lines("Service"))} rpc R(stream M) returns (.o.p.M) {{ {draw(lines("Method"))} }}
  rpc T(M) returns (stream M.N);
}}
"""
