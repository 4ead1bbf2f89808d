"""The binding of LevelDB: plyvel, or its fork `plyvel_next` where plyvel is not installed.

pyproject.toml chooses by the kind of machine: plyvel has wheels for x86_64 Linux up to Python 3.12,
the fork for 3.12 and newer. The fork is plyvel 1.5.1 under another name, with a newer LevelDB. Each
opens the stores of the other (`tests/tables/test_leveldb_binding.py`).
"""

try:
    import plyvel
except ModuleNotFoundError:
    import plyvel_next as plyvel

__all__ = ["plyvel"]
