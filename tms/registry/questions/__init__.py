"""Questions about texts of schemas, and their answers: data alone, whatever the type."""
