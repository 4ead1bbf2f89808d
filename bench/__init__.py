"""Benchmarks: `python -m bench`. See bench/README.md."""
