"""The command line, `tms`: one module for each group of commands, assembled in `main`."""
