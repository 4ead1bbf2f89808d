"""The binding of LevelDB: plyvel, or from Python 3.13 on its fork `plyvel_next`.

plyvel has no wheels for Python 3.13. The fork is plyvel 1.5.1 under another name, with a newer
LevelDB. Each opens the stores of the other (`tests/tables/test_leveldb_binding.py`).
"""

import sys

if sys.version_info >= (3, 13):
    import plyvel_next as plyvel
else:
    import plyvel

__all__ = ["plyvel"]
