"""The program for `spark-submit`, alone in its folder.

Python looks for modules first in the folder of the program that it runs; among the commands it
would take `tms/cli/copy.py` for its own `copy`.
"""
