"""Cleanup of a store on HBase: a worker for each region, as CDAP has coprocessors."""

import tables.hbase.opening  # noqa: F401  happybase first: it makes the modules that others import
