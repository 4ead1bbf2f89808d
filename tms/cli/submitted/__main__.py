"""`tms spark` as a program for `spark-submit`.

    spark-submit --master spark://HOST:PORT $(python -m tms.cli.submitted) archive FOLDER orders

Run without `spark-submit`, it prints its own path, as in that line.
"""

import os
import sys
from pathlib import Path

from tms.cli.main import app

SUBMITTED = "PYSPARK_GATEWAY_PORT"
"""Set in the environment if spark-submit started this process."""

if __name__ == "__main__":
    if SUBMITTED in os.environ:
        app(["spark", *sys.argv[1:]], prog_name="tms")
    else:
        print(Path(__file__).resolve())
