"""Questions about schemas and their answers: plain data, whatever the type."""
