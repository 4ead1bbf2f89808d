"""Where Spark finds `format("tms")` by itself: it looks into every package named `pyspark_…`.

Nothing else belongs here: an error while this is imported breaks all Python data sources of the
session.
"""

from tms.spark.source import TmsDataSource as DefaultSource

__all__ = ["DefaultSource"]
