"""What is configured while servers run: namespaces and their settings, in a metadata store."""
