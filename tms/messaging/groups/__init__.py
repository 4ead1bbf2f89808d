"""Groups: the messages of a topic that many members take and settle."""
