"""An example of each command that contacts a server or opens a store, with its arguments."""

ID = "0" * 40
SCHEDULED_ID = "0" * 32

READING: list[tuple[str, ...]] = [
    ("poll", "t"),
    ("poll", "t", "--committed"),
    ("poll", "t", "--follow", "--limit", "1"),
    ("export", "t"),
    ("topic", "list"),
    ("topic", "show", "t"),
    ("namespace", "list"),
    ("namespace", "show", "shop"),
    ("subscription", "list", "t"),
    ("subscription", "show", "t", "s"),
    ("tx", "list"),
    ("tx", "list", "--invalid"),
    ("tx", "show", "TX"),
    ("tx", "owners", "list"),
    ("schema", "list"),
    ("schema", "show", "t-value"),
    ("schema", "check", "t-value", "FILE"),
    ("schema", "compatibility"),
    ("schema", "diff", "t-value", "1", "1"),
    ("registry", "status"),
]
"""Commands that take the store as --url."""
READING_GROUPS: list[tuple[str, ...]] = [
    ("group", "list", "t"),
    ("group", "show", "t", "g"),
    ("group", "members", "t", "g"),
    ("group", "open", "t", "g"),
    ("group", "dead", "list", "t", "g"),
    ("group", "dead", "show", "t", "g", ID),
    ("topic", "scheduled", "list", "t"),
]
"""The same, for a store of the current format, which groups need."""
LOOKING: list[tuple[str, ...]] = [
    ("debug", "tables"),
    ("debug", "rows"),
    ("debug", "bounds"),
    ("debug", "verify"),
    ("debug", "export"),
    ("debug", "explain", "t", ID),
    ("metadata", "ls"),
    ("metadata", "get", "/kept"),
]
"""Commands that take the store as --store."""
OF_DEAD_LETTERS = [each for each in READING_GROUPS if "dead" in each]
"""Commands on a group without dead letters: they print nothing, or that there are none."""
NOTHING_TO_SAY = [("tx", "list", "--invalid"), ("tx", "owners", "list")]
WATCHING = ("metadata", "watch")
"""A command like those in `LOOKING`, except that it never ends."""
WRITING: list[tuple[str, ...]] = [
    ("poll", "t", "--subscription", "s"),
    ("publish", "t", "x"),
    ("publish", "t", "--lines", "FILE"),
    ("publish", "t", "x", "--after", "1h"),
    ("topic", "scheduled", "cancel", "t", SCHEDULED_ID),
    ("publish-all", "LINES"),
    ("import", "t", "EXPORTED"),
    ("rollback", "t", "1:1.0:1.0"),
    ("topic", "set", "t", "--ttl", "1d"),
    ("topic", "trim", "t", "--before", "2020-01-01"),
    ("topic", "delete", "t"),
    ("namespace", "set", "shop", "--ttl-max", "1d"),
    ("namespace", "delete", "shop"),
    ("subscription", "create", "t", "s2"),
    ("subscription", "set", "t", "s", "--after", ID),
    ("subscription", "delete", "t", "s"),
    ("group", "create", "t", "g2"),
    ("group", "set", "t", "g", "--lease", "1m"),
    ("group", "pause", "t", "g"),
    ("group", "resume", "t", "g"),
    ("group", "seek", "t", "g", "--to", "start"),
    ("group", "take", "t", "g", "--limit", "1"),
    ("group", "skip", "t", "g", ID),
    ("group", "release", "t", "g", "--member", "m"),
    ("group", "dead", "redrive", "t", "g", ID),
    ("group", "dead", "drop", "t", "g", ID),
    ("group", "delete", "t", "g"),
    ("tx", "start"),
    ("tx", "commit", "1"),
    ("tx", "abort", "1"),
    ("tx", "invalidate", "1"),
    ("tx", "truncate", "1"),
    ("tx", "owners", "forget", "o"),
    ("schema", "register", "t-value", "FILE"),
    ("schema", "compatibility", "--set", "NONE"),
    ("schema", "delete", "t-value"),
]
"""Commands that take the store as --url, and require that it exists."""
WRITING_BESIDE: list[tuple[str, ...]] = [("metadata", "rm", "/kept")]
"""Commands that take the store as --store, and require that it exists."""
OF_STORES = (*READING, *READING_GROUPS, *LOOKING, WATCHING, *WRITING, *WRITING_BESIDE)
SERVERS: list[tuple[str, ...]] = [
    ("cleanup", "show"),
    ("cleanup", "run"),
    ("cluster",),
    ("cluster", "where", "default:t"),
    ("cluster", "move", "0", "7"),
    ("clock",),
    ("clock", "accept", "--step-s", "1"),
    ("backup", "list"),
    ("backup", "take", "b"),
    ("backup", "verify", "b"),
    ("backup", "delete", "b"),
    ("backup", "prune", "--keep", "1"),
    ("auth", "grant", "a", "read", "default:t"),
    ("auth", "revoke", "1"),
    ("auth", "list"),
    ("auth", "explain", "a", "read", "default:t"),
    ("auth", "token", "a"),
    ("auth", "tokens"),
    ("auth", "whoami"),
    ("status",),
    ("ui",),
]
"""Commands that accept only a server: a folder as --url is wrong usage."""
