"""The program for `spark-submit`, alone in its folder.

Python looks for modules beside the program that it runs first; beside the commands it would take
`tms/cli/copy.py` for its own `copy`.
"""
