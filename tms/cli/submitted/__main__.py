"""`tms spark` as the program that `spark-submit` takes.

    spark-submit --master spark://HOST:PORT $(python -m tms.cli.submitted) archive FOLDER orders

Run by itself it prints where it is, as there.
"""

import os
import sys
from pathlib import Path

from tms.cli.main import app

SUBMITTED = "PYSPARK_GATEWAY_PORT"
"""Set in the environment where spark-submit started this process."""

if __name__ == "__main__":
    if SUBMITTED in os.environ:
        app(["spark", *sys.argv[1:]], prog_name="tms")
    else:
        print(Path(__file__).resolve())
