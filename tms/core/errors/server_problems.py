"""The rows of the catalogue from 500 on, by status and then by class: errors of the server.

Codes are part of the REST interface: never change or reuse one.
"""

from collections.abc import Mapping

SERVER_PROBLEMS: Mapping[int, Mapping[str, Mapping[str, str]]] = {
    500: {
        "InternalError": {"internal": "The server failed; its log says why."},
        "StoreLocked": {
            "store_locked": "The data folder is open already.",
            "store_of_a_cluster": (
                "A cluster uses this store: start the server with --advertise, or run `tms cluster "
                "release` if none of the cluster's servers runs any more."
            ),
        },
        "FolderUnusable": {
            "folder_unusable": (
                "The data folder cannot be used: name another folder, or remove the cause that "
                "`detail` gives."
            ),
        },
        "StoreNotFound": {
            "store_not_found": (
                "There is no store in this folder: check the path, or create a store there with "
                "`tms topic create` or `tms serve`."
            ),
        },
        "StoreSharded": {
            "store_sharded": (
                "The store has several shards, so only `tms serve` opens it, and all of them "
                "together: use it through that server. `tms copy`, `tms prune` and `tms debug "
                "verify` take the whole store; `tms debug` and `tms prune` take one shard, by the "
                "store's URL with a dot and its number at the end."
            ),
        },
        "StoreCorrupt": {"store_corrupt": "Stored bytes are damaged."},
        "StoreFileLost": {
            "store_file_lost": (
                "A file of the store is missing or too short: restore the whole data folder from a "
                "copy."
            ),
        },
        "ValueUnreadable": {
            "value_unreadable": "The value at this path is not valid there.",
        },
        "StoreFormatUnknown": {
            "store_format_unknown": "This version does not know the format of the data folder.",
        },
    },
    502: {
        "NotTms": {"not_tms": "The server at this address is not TMS; check the address."},
    },
    503: {
        "QueueFull": {"queue_full": "Too much is waiting to be written; try again."},
        "TooManyConnections": {
            "too_many_connections": "The server has reached its limit of connections; try again.",
        },
        "TooManyTransactions": {
            "too_many_transactions": (
                "The limit of transactions in progress is reached; end some, or try again when "
                "some have ended."
            ),
            "too_many_changes_kept": (
                "The server keeps too many changes for the transactions in progress; end the "
                "oldest ones, or try again."
            ),
        },
        "StoreUnavailable": {"store_unavailable": "The store cannot be used now; try again."},
        "SchemasUnavailable": {
            "schemas_unavailable": (
                "The schema registry did not answer, so nothing was done; try again."
            ),
        },
        "RulesUnavailable": {
            "rules_unavailable": (
                "The metadata store cannot be reached, so the server does not know who may do "
                "what; try again."
            ),
        },
        "Stopping": {"stopping": "The service is stopping; try again."},
        "MetadataUnavailable": {
            "metadata_unavailable": "The metadata store could not be reached; try again.",
        },
        "DebugBusy": {
            "debug_busy": (
                "The server makes one debug report at a time; try again when the current one is "
                "done."
            ),
        },
        "NoLeader": {"no_leader": "The cluster has no leader now; try again."},
        "MetadataClosed": {"metadata_closed": "The metadata store is closed."},
        "ServerUnreachable": {"server_unreachable": "No connection to the server."},
    },
    504: {
        "OutcomeUnknown": {
            "outcome_unknown": (
                "It is not known whether the request was carried out; find out before you send it "
                "again."
            ),
        },
        "AnswerLost": {
            "answer_lost": (
                "The server's answer did not arrive; the request would not have changed anything."
            ),
        },
        "ServerSilent": {
            "server_silent": (
                "The server accepts connections but does not answer; check that this is the "
                "address of TMS, and that the server does not hang."
            ),
        },
    },
}
