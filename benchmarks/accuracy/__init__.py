"""Accuracy of the defaults beside other methods, on the same splits and in the same run.

`data` makes the cases; `ours` and each file of `peers` label their items; `run` measures what is
not in the results file yet; `page` writes docs/accuracy.md and its figures from that file alone.
"""
