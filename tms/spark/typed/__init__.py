"""Typed rows: the values of payloads as columns, and rows as payloads, by schemas.

Reading order: `columns.py`, values in a column; `avro_columns.py`, `json_columns.py` and
`proto_columns.py`, columns for schemas; `forms.py`, whole values; `names.py`, the names of columns.
Tasks decode (`avro_version.py`, `decoding.py`, `reading.py`) and encode (`encoding.py`,
`writing.py`) with the serdes of `tms.serdes`, so no payload can do harm. The driver plans a query
by one schema (`schema.py`), which it gets from the registry (`registered.py`). `functions.py` has
`from_tms` and `to_tms`.
"""
