"""Clocks, tasks, forks, TLS and connections of a process, whatever it serves."""
