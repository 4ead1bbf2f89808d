"""Errors that no change of the request repairs: of the service, the store, or the connection."""

from tms.core.errors.catalogue import TmsError, at


class PayloadUndecodable(TmsError):
    """Raised when a message that was read does not match its schema; `detail` has its `id`."""

    problems = at(
        422,
        payload_undecodable=(
            "A message does not match its schema; continue after its id, or ask for bytes."
        ),
    )


class Unavailable(TmsError):
    """Raised when nothing was done and the same call may succeed later."""

    code = "store_unavailable"


class QueueFull(Unavailable):
    problems = at(503, queue_full="Too much is waiting to be written; try again.")


class RateExceeded(Unavailable):
    """Raised when a namespace or a principal exceeds a rate; `detail` says until when."""

    code = "publish_rate_exceeded"
    problems = at(
        429,
        publish_rate_exceeded=(
            "The namespace's publish rate is used up; publish again after Retry-After seconds, or "
            "raise the rate with `tms namespace set`."
        ),
        principal_rate_exceeded=(
            "You have reached a limit for each principal; `detail` names the setting. Try again "
            "after Retry-After seconds."
        ),
    )


class TooManyConnections(Unavailable):
    problems = at(
        503, too_many_connections="The server has reached its limit of connections; try again."
    )


class TooManyTransactions(Unavailable):
    """Raised when the limit of transactions in progress is reached."""

    code = "too_many_transactions"
    problems = at(
        503,
        too_many_transactions=(
            "The limit of transactions in progress is reached; end some, or try again when some "
            "have ended."
        ),
        too_many_changes_kept=(
            "The server keeps too many changes for the transactions in progress; end the oldest "
            "ones, or try again."
        ),
    )


class DebugBusy(Unavailable):
    problems = at(
        503,
        debug_busy=(
            "The server makes one debug report at a time; try again when the current one is done."
        ),
    )


class StoreUnavailable(Unavailable):
    """Raised when the store cannot be read or written now: a full disk, a stopped server."""

    problems = at(503, store_unavailable="The store cannot be used now; try again.")


class BackupsUnreachable(Unavailable):
    problems = at(
        503, backups_unreachable="The place of the backups cannot be used; `reason` says why."
    )


class Stopping(Unavailable):
    problems = at(503, stopping="The service is stopping; try again.")


class RulesUnavailable(Unavailable):
    problems = at(
        503,
        rules_unavailable=(
            "The metadata store cannot be reached, so the server does not know who may do what; "
            "try again."
        ),
    )


class SchemasUnavailable(Unavailable):
    problems = at(
        503,
        schemas_unavailable="The schema registry did not answer, so nothing was done; try again.",
    )


class MetadataUnavailable(Unavailable):
    """Raised when the metadata store could not be reached; a write may have been carried out."""

    problems = at(503, metadata_unavailable="The metadata store could not be reached; try again.")


class NoLeader(Unavailable):
    """Raised when a cluster has no leader now, or this server no longer leads it."""

    problems = at(503, no_leader="The cluster has no leader now; try again.")


class MetadataClosed(Unavailable):
    """Raised when this process has closed a metadata store, or something that uses one."""

    problems = at(503, metadata_closed="The metadata store is closed.")


class ServerUnreachable(Unavailable):
    """Raised by the client when no connection could be made: the request was not sent."""

    problems = at(503, server_unreachable="No connection to the server.")


class OutcomeUnknown(TmsError):
    """Raised when a write or its answer was lost, so the request may have been carried out."""

    problems = at(
        504,
        outcome_unknown=(
            "It is not known whether the request was carried out; find out before you send it "
            "again."
        ),
    )


class AnswerLost(OutcomeUnknown):
    """Raised by the client when the answer to a request that only reads did not arrive."""

    problems = at(
        504,
        answer_lost=(
            "The server's answer did not arrive; the request would not have changed anything."
        ),
    )


class ServerSilent(OutcomeUnknown):
    problems = at(
        504,
        server_silent=(
            "The server accepts connections but does not answer; check that this is the address of"
            " TMS, and that the server does not hang."
        ),
    )


class StoreError(TmsError):
    """Raised when a store cannot be opened before an operator acts."""

    code = "store_corrupt"


class StoreLocked(StoreError):
    """Raised when the data folder is open already; `detail` names the process that holds it."""

    code = "store_locked"
    problems = at(
        500,
        store_locked="The data folder is open already.",
        store_of_a_cluster=(
            "A cluster uses this store: start the server with --advertise, or run `tms cluster "
            "release` if none of the cluster's servers runs any more."
        ),
    )


class StoreNotFound(StoreError):
    """Raised when there is no store in a folder, and the caller may not create one."""

    problems = at(
        500,
        store_not_found=(
            "There is no store in this folder: check the path, or create a store there with `tms "
            "topic create` or `tms serve`."
        ),
    )


class FolderUnusable(StoreError):
    """Raised when a data folder cannot be written now; `detail` says why."""

    problems = at(
        500,
        folder_unusable=(
            "The data folder cannot be used: name another folder, or remove the cause that "
            "`detail` gives."
        ),
    )


class CopyRefused(StoreError):
    """Raised when a store cannot be copied into another; `detail` says why, and what to do."""

    problems = at(409, copy_refused="The stores cannot be copied now; `detail` says why.")


class StoreCorrupt(StoreError):
    """Raised when stored bytes are damaged. Nothing is repaired or dropped silently."""

    problems = at(500, store_corrupt="Stored bytes are damaged.")


class StoreFileLost(StoreCorrupt):
    """Raised when a file of a data folder is missing or too short; `detail` names it."""

    problems = at(
        500,
        store_file_lost=(
            "A file of the store is missing or too short: restore the whole data folder from a "
            "copy."
        ),
    )


class ValueUnreadable(StoreCorrupt):
    problems = at(500, value_unreadable="The value at this path is not valid there.")


class StoreSharded(StoreError):
    """Raised when a sharded store, or one of its shards, is opened as a whole store.

    `detail` has the number of `shards` and the rule `by`; with `shard` it is only that shard.
    """

    code = "store_sharded"
    problems = at(
        500,
        store_sharded=(
            "The store has several shards, so only `tms serve` opens it, and all of them together:"
            " use it through that server. `tms copy`, `tms prune` and `tms debug verify` take the "
            "whole store; `tms debug` and `tms prune` take one shard, by the store's URL with a "
            "dot and its number at the end."
        ),
    )


class StoreFormatUnknown(StoreError):
    problems = at(
        500, store_format_unknown="This version does not know the format of the data folder."
    )
