"""What the server cannot do, by status and then by class: the catalogue's rows from 500 on.

Codes are part of the REST interface: never change or reuse one.
"""

from collections.abc import Mapping

SERVER_PROBLEMS: Mapping[int, Mapping[str, Mapping[str, str]]] = {
    500: {
        "InternalError": {"internal": "The server failed; its log says why."},
        "StoreLocked": {
            "store_locked": "The data folder is open already.",
            "store_of_a_cluster": (
                "A cluster uses this store: start the server with --advertise, or say "
                "`tms cluster release` if none of the cluster's servers runs any more."
            ),
        },
        "FolderUnusable": {
            "folder_unusable": (
                "The data folder cannot be used: name another, or change what stands in its way."
            ),
        },
        "StoreNotFound": {
            "store_not_found": (
                "There is no store in this folder: check the path, or create a store there with "
                "`tms topic create` or `tms serve`."
            ),
        },
        "StoreCorrupt": {"store_corrupt": "Stored bytes are damaged."},
        "StoreFileLost": {
            "store_file_lost": (
                "A file of the store is lost or was cut: restore the whole data folder from a copy."
            ),
        },
        "ValueUnreadable": {
            "value_unreadable": "The value at this path is none of what is expected there.",
        },
        "StoreFormatUnknown": {
            "store_format_unknown": "The data folder has a format that this version does not know.",
        },
    },
    502: {
        "NotTms": {"not_tms": "What answers at this address is not TMS; check the address."},
    },
    503: {
        "QueueFull": {"queue_full": "Too much is waiting to be written; try again."},
        "TooManyConnections": {
            "too_many_connections": (
                "The server has as many connections at work as it may have; try again."
            ),
        },
        "TooManyTransactions": {
            "too_many_transactions": (
                "As many transactions are in progress as may be; end some, or try again when some "
                "have ended."
            ),
            "too_many_changes_kept": (
                "Too many changes are kept for those in progress; end the oldest, or try again."
            ),
        },
        "StoreUnavailable": {"store_unavailable": "The store cannot be used now; try again."},
        "SchemasUnavailable": {
            "schemas_unavailable": (
                "The schema registry could not be asked, so nothing was done; try again."
            ),
        },
        "RulesUnavailable": {
            "rules_unavailable": (
                "Nobody knows now who may do what, because the metadata store is not reached; try "
                "again."
            ),
        },
        "Stopping": {"stopping": "The service is stopping; try again."},
        "MetadataUnavailable": {
            "metadata_unavailable": "The metadata store was not reached; try again.",
        },
        "DebugBusy": {
            "debug_busy": (
                "The server makes one debug report at a time; try again when that one is done."
            ),
        },
        "NoLeader": {"no_leader": "No server of the cluster leads now; try again."},
        "MetadataClosed": {"metadata_closed": "The metadata store is closed."},
        "ServerUnreachable": {"server_unreachable": "No connection to the server."},
    },
    504: {
        "OutcomeUnknown": {
            "outcome_unknown": (
                "Nobody knows yet whether the request was carried out; find out before you send it "
                "again."
            ),
        },
        "AnswerLost": {
            "answer_lost": "The answer of the server did not arrive; nothing was to be changed.",
        },
        "ServerSilent": {
            "server_silent": (
                "The server takes connections and answers nothing; check that the address is that "
                "of TMS, and that it does not hang."
            ),
        },
    },
}
