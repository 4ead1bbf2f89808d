"""Jobs on topics, as plain functions: `archive`, `replay`, `transform`, `stats`, `prune`.

Each takes a Spark session and the options of `format("tms")` that locate the topics, returns a
summary, and may be stopped and restarted at any time. `tms spark …` runs them, also under
`spark-submit`.
"""

from tms.spark.jobs.archive import archive
from tms.spark.jobs.prune import prune
from tms.spark.jobs.replay import replay
from tms.spark.jobs.stats import stats
from tms.spark.jobs.transform import transform

__all__ = ["archive", "prune", "replay", "stats", "transform"]
