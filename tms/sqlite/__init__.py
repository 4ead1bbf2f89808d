"""SQLite rows and messages together: a participant of a transaction, without an outbox.

    part = SqliteParticipant(connection)
    part.recover(client.transactions)          # when the program starts
    with client.transaction(participants=[part]) as tx:
        connection.execute("INSERT INTO orders …")
        topic.publish(b"…", tx)

SQLite has no prepared state, so the participant provides one. Before TMS commits, it writes the
changed rows, before and after the change, durably to a journal, a file beside the database
(`FILE-tms`), while SQLite's own transaction stays open and keeps other writers out. TMS's durable
commit is the decision; then SQLite commits, and the journal is cleared. After a crash:

| it happens | rows | messages |
| --- | --- | --- |
| before the journal is written | rolled back by SQLite | never seen: it times out |
| after that, before TMS has committed | the same; `recover` clears the journal | never seen |
| after TMS has committed | the same; `recover` makes the changes from the journal | seen |
| after SQLite has committed | there; `recover` clears the journal | seen |

So after `recover`, either both rows and messages exist or neither does. Until then participants
refuse to start, so nothing builds on rows that are still missing.

Limits: Between a crash and `recover`, SQLite itself keeps nobody out: if a program without a
participant has changed one of the rows by then, `recover` changes nothing, reports the transaction
as `conflicting`, and leaves its changes in the journal. For a moment, or after a crash until
`recover`, a reader may see the messages before the rows. `recover` must run before TMS forgets the
transaction (see `tms.postgresql`).

Changes of the schema, attached databases, and databases with virtual tables, in another encoding
than UTF-8, or in memory only, are refused, because the journal could not repeat them. Within the
transaction SQLite's `recursive_triggers` is on; otherwise it does not report which rows `INSERT OR
REPLACE` deletes.
"""

from tms.sqlite.participant import SqliteParticipant

__all__ = ["SqliteParticipant"]
