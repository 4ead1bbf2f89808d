"""Cleanup of a store on HBase: a worker for each region, as CDAP has coprocessors."""
