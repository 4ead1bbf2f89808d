"""Every error of TMS: who is at fault, a stable code, an HTTP status.

TmsError
├── RequestError                  the caller must change something; nothing was done
│   ├── InvalidRequest            400 and its kin: one class, many codes
│   ├── TooLarge                  413
│   ├── TopicNotFound, TransactionUnknown, SubscriptionNotFound, PathNotFound   404
│   ├── NamespaceNotDeclared, GrantNotFound, OwnerNotFound                      404
│   ├── NotAuthenticated          401
│   ├── NotPermitted              403
│   ├── DataLost                  410
│   ├── PayloadRefused            422
│   ├── NotTms, SchemaRefused     raised by the client only
│   └── Conflict                  409: the request is well formed, the state forbids it
│       ├── TopicExists
│       ├── TopicMoved
│       ├── TransactionExpired, TransactionNotInProgress
│       ├── TransactionConflict, TransactionDuplicate
│       ├── OwnerBusy, OwnerElsewhere, CheckpointBehind
│       ├── PublicationRefused, TopicIsCompact
│       ├── InvalidTrimTime, InvalidTruncateTime
│       ├── TransactionsElsewhere, ClockMoved
│       ├── SubscriptionExists, SubscriptionMoved
│       ├── SubscriptionIsShared, SubscriptionIsSingle, AckRefused, StoreFormatOld
│       ├── OtherShard
│       ├── BadVersion, PathExists, PathHasChildren
│       └── LockBusy, NoMetadataStore, AuthenticationOff, RollbackRefused
├── Unavailable                   503: not done; the same call may succeed later
│   ├── QueueFull
│   ├── RateExceeded              429
│   ├── TooManyConnections, TooManyTransactions, DebugBusy
│   ├── StoreUnavailable, SchemasUnavailable, RulesUnavailable, Stopping, NoLeader
│   ├── MetadataUnavailable, MetadataClosed
│   └── ServerUnreachable         raised by the client only
├── OutcomeUnknown                504: it may or may not have been done
│   └── AnswerLost, ServerSilent  raised by the client only
├── PayloadUndecodable            raised by the client only
├── StoreError                    an operator must act: the folder cannot be opened
│   ├── StoreNotFound, StoreLocked, FolderUnusable, CopyRefused, StoreSharded
│   ├── StoreCorrupt
│   │   └── StoreFileLost, ValueUnreadable
│   └── StoreFormatUnknown
└── InternalError                 500: our fault

The text of an error is static; what varies is in `detail`, so that errors can be counted and
grouped by code. `catalogue` has each code once, with its status, text and class; REST, OpenAPI,
client and command line are made from it.
"""

from tms.core.errors.classes import *
from tms.core.errors.conflicts import *
