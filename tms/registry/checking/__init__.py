"""The processes that answer questions about schemas, in turns."""
