"""Rows with types: the values of payloads as columns, and rows as payloads, by schemas.

Reading order: `columns.py`, what a value is in a column; `avro_columns.py`, `json_columns.py` and
`proto_columns.py`, which make that of schemas; `forms.py`, whole values; `names.py`, which column
is which field. Tasks decode (`avro_version.py`, `decoding.py`, `reading.py`) and encode
(`encoding.py`, `writing.py`) with the serdes of `tms.serdes`, so that no payload can do harm. The
driver plans a query by one schema (`schema.py`), which it asks the registry for (`registered.py`).
`functions.py` has `from_tms` and `to_tms`.
"""
