"""The registry's REST interface, which is Confluent's: its table, errors and document."""
