"""Rows with types: the values of payloads as columns, and rows as payloads, by schemas.

`columns.py` has what a value is in a column; `avro_columns.py`, `json_columns.py` and
`proto_columns.py` make that of schemas; `names.py` says which column is which field; `schema.py`
is what a query is planned with; `decoding.py` and `encoding.py` are what tasks do, with the serdes
of `tms.serdes`, so that no payload can do harm.
"""
