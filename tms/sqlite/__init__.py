"""SQLite rows and messages together: a participant of a transaction, without an outbox.

    part = SqliteParticipant(connection)
    part.recover(client.transactions)          # when the program starts
    with client.transaction(participants=[part]) as tx:
        connection.execute("INSERT INTO orders …")
        topic.publish(b"…", tx)

SQLite has no prepared state, so one is made for it. Before TMS commits, the changed rows, as they
were and as they are, are written durably to a journal, a file beside the database (`FILE-tms`),
while SQLite's own transaction stays open and keeps other writers out. TMS's durable commit is the
decision; after it SQLite commits, and the journal is cleared. What a crash leaves:

| it happens | rows | messages |
| --- | --- | --- |
| before the journal is written | rolled back by SQLite | never seen: it times out |
| after that, before TMS has committed | the same; `recover` clears the journal | never seen |
| after TMS has committed | the same; `recover` makes the changes from the journal | seen |
| after SQLite has committed | there; `recover` clears the journal | seen |

So once `recover` has run, rows and messages are both there or neither is. Until then participants
refuse to start, so that nothing is built upon rows that are still missing.

What is not promised. Between a crash and `recover`, SQLite itself keeps nobody out: where a program
that does not use a participant has changed one of the rows meanwhile, `recover` changes nothing,
and reports the transaction as `conflicting`, with its changes left in the journal. For a moment,
and until `recover` after a crash, a reader may see the messages and not yet the rows. `recover`
must be run before TMS forgets the transaction (see `tms.postgresql`).

Changes of the schema, attached databases, and databases with virtual tables, in another encoding
than UTF-8, or in memory only, are refused: the journal could not make up for them. Within the
transaction SQLite's `recursive_triggers` is on, for otherwise it does not tell which rows `INSERT
OR REPLACE` deletes.
"""

from tms.sqlite.participant import SqliteParticipant

__all__ = ["SqliteParticipant"]
