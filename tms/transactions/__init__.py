"""Transactions: their state, its log and snapshots, and the service around them."""
