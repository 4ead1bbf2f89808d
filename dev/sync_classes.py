"""The classes of the client for threads, and their exceptions to the rules of `sync_client`."""

from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


@dataclass(frozen=True, slots=True)
class Made:
    """A generated class, and the function in its file."""

    source: str
    """The module from which it is generated."""
    module: str
    name: str
    attribute: str
    """The name of its attribute with the asynchronous object."""
    through: str = "bridge"
    function: str = ""

    @property
    def path(self) -> Path:
        """Its file."""
        return path_of(self.module)


MADE = (
    Made("tms.client.async_client", "tms.client.client", "Client", "client", function="connect"),
    Made("tms.client.topics.async_topic", "tms.client.topics.topic", "Topic", "topic"),
    Made(
        "tms.client.topics.async_subscription",
        "tms.client.topics.subscription",
        "Subscription",
        "subscription",
    ),
    Made("tms.client.groups.async_group", "tms.client.groups.group", "TopicGroup", "group"),
    Made(
        "tms.client.groups.async_group_message",
        "tms.client.groups.group_message",
        "GroupMessage",
        "taken",
    ),
    Made(
        "tms.client.transactions.async_transaction",
        "tms.client.transactions.transaction",
        "TransactionContext",
        "context",
        through="home",
    ),
    Made(
        "tms.core.services.transactions",
        "tms.client.transactions.transactions",
        "Transactions",
        "transactions",
    ),
    Made("tms.core.services.schemas", "tms.client.schemas", "Schemas", "schemas"),
    Made("tms.core.values.namespaces", "tms.client.namespaces", "Namespaces", "namespaces"),
)
LEFT_OUT = (
    "calling_by",
    "hold",
    "begin_commit",
    "commit_acks",
    "committed",
    "in_doubt",
    "rolled_back",
    "settle_as",
)
SERVERS_ONLY = "caller"


@dataclass(frozen=True, slots=True)
class Own:
    """A body, and an addition to the docstring."""

    body: str
    also: str = ""


OWN = {
    "connect": Own("""
        client = connect_remote(
            url,
            namespace,
            timeout_s=timeout_s,
            retry_for_s=retry_for_s,
            compress=compress,
            auth=auth,
            ca=ca,
            certificate=certificate,
            allow_plaintext=allow_plaintext,
            direct=direct,
        )
        if client is None:
            return Client(*open_in_thread(url, namespace, retry_for_s=retry_for_s))
        bridge = Bridge()
        bridge.close_with(client.close)
        return Client(client, bridge)
        """),
    "Client.publish_all": Own("""
        taken = [message.taken for message in acks]
        return self._bridge.call(
            self._client.publish_all,
            publications,
            acks=taken,
            owner=owner,
            sequence=sequence,
            timeout_s=timeout_s,
        )
        """),
    "Client.close": Own(
        "self._bridge.close()",
        "A call in progress, in another thread or interrupted by the signal handler that closes, "
        "raises `OutcomeUnknown`; later calls raise `RuntimeError`. Open clients are closed when "
        "the program ends.",
    ),
    "Client.__enter__": Own("return self"),
    "TopicGroup.take": Own("""
        runs = self._group.take_runs(prefetch=prefetch, lease_s=lease_s, hold_s_max=hold_s_max)
        return self._bridge.iterate(runs, partial(GroupMessage, bridge=self._bridge))
        """),
    "TopicGroup.take_once": Own("""
        taken = self._bridge.call(
            self._group.take_once, messages, wait_s, lease_s=lease_s, timeout_s=timeout_s
        )
        return [GroupMessage(each, self._bridge) for each in taken]
        """),
    "TopicGroup.worker": Own("""
        limit = work_limit_of(timeout_s, transaction_timeout_s, transaction=transaction)
        begin = transactions_of(self._group.begin, limit, transaction=transaction)
        settings = WorkerSettings(concurrency, stop_s, lease_s, hold_s_max, limit)

        def worker_of(function: Callable[..., Any]) -> GroupWorker:
            hold = self._group.hold
            transactions = self._group.transactions
            return GroupWorker(
                hold,
                self._bridge,
                function,
                begin,
                participants,
                settings=settings,
                transactions=transactions,
            )

        return worker_of
        """),
    "GroupMessage.__enter__": Own("return self"),
    "Subscription.run": Own("""
        def begin(participants: Iterable[TransactionAware]) -> TransactionContext:
            made = self._subscription.begin(participants=participants)
            return TransactionContext(made, self._bridge)

        run_in_thread(self, handler, begin, participants, limit, chosen=filter)
        """),
    "Client.__exit__": Own("self.close()"),
    "TransactionContext.__init__": Own("""
        self._home = CallingThread(bridge)
        self._context = context.calling_by(self._home.invoke)
        """),
    "TransactionContext.gathered": Own("""
        self._home.check_process()
        return self._context.gathered
        """),
    "TransactionContext.abort": Own("self._home.end(self, self._context.abort)"),
    "TransactionContext.__enter__": Own("""
        self._home.begin(self, self._context.__aenter__)
        return self
        """),
    "TransactionContext.__exit__": Own(
        """
        if self._home.is_parents and error is not None:
            return
        self._home.end(self, self._context.__aexit__, kind, error, traceback)
        """,
        "A child forked within the block leaves the transaction to its parent.",
    ),
    "Transactions.commit": Own(
        """
        commit = Commit(self._transactions, transaction_id, request)
        self._bridge.call(commit.finish, COMMIT_S)
        """,
        "If the answer is lost, the client asks for the outcome, as in `Client.transaction`, and "
        "raises `OutcomeUnknown` if no server answers.",
    ),
}

SENTENCES = {
    "Any number of tasks may use it at once, in the event loop in which it was made.": (
        "Any number of threads may use it at once; it has one thread of its own. Signal handlers "
        "may use it too. A handler that interrupts the client's first call gets a `RuntimeError` "
        "that says what to do instead."
    ),
    (
        "Use the client in one event loop, and close it there, best by `async with`; in another "
        "one it raises `RuntimeError`. A program may end without closing it: nothing acknowledged "
        "is lost, but calls in progress are not finished. In a child of `os.fork()`, a client of a "
        "server works again in the child's own event loop; one of a store in this process raises "
        "`RuntimeError`."
    ): (
        "Close the client, best by `with`. An unreferenced client closes itself, with a "
        "`ResourceWarning`; open ones are closed when the program ends. In a child of "
        "`os.fork()`, a client of a server that was made before the fork makes connections of its "
        "own; one of a store in this process raises `RuntimeError` at once."
    ),
    (
        "A transaction belongs to the principal of the `caller` that started it. Methods that take "
        "the id of one raise `NotPermitted` (transaction_of_another) if the caller is another "
        "principal that may not end any transaction. A caller without a principal is not checked "
        "(`tms.core.values.caller`)."
    ): (
        "A transaction belongs to the principal that started it. Methods that take the id of one "
        "raise `NotPermitted` (transaction_of_another) if you are another principal that may not "
        "end any transaction. A program that works in a transaction itself has "
        "`Client.transaction`."
    ),
}
HOMES = {
    "Bridge": "tms.client.threads.bridge",
    "COMMIT_S": "tms.client.transactions.commit_outcome",
    "CallingThread": "tms.client.threads.callback_thread",
    "GroupWorker": "tms.client.groups.worker",
    "Commit": "tms.client.transactions.commit_outcome",
    "Messages": "tms.client.threads.messages",
    "partial": "functools",
    "Retrying": "tenacity",
    "open_in_thread": "tms.client.in_process",
    "run_in_thread": "tms.client.topics.subscription_loop",
    **{made.name: made.module for made in MADE},
}
"""The modules of names in the generated files that their sources do not import."""


def path_of(module: str) -> Path:
    """Return the file of one of our modules."""
    return ROOT / f"{module.replace('.', '/')}.py"
