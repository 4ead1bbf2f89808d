"""The command line, `tms`: one module for each group of commands, put together in `main`."""
