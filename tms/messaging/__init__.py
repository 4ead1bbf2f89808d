"""The messaging service: topics, publish, store, rollback and poll over the tables."""
