"""The clocks, tasks, forks, TLS and connections of any process."""
