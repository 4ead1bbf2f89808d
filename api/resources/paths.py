"""Paths that several resources are below."""

NAMESPACE = "/v1/namespaces/{namespace}"
TOPICS = f"{NAMESPACE}/topics"
TOPIC = f"{TOPICS}/{{topic}}"
TRANSACTIONS = "/v1/transactions"
TRANSACTION = f"{TRANSACTIONS}/{{transaction_id}}"
CLUSTER = "/v1/cluster"
