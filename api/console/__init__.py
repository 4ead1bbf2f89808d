"""The console: pages for people who run the server. Nothing else knows this room."""
