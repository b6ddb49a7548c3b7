"""Graphs with few labels: the defaults beside graph networks, smoothing and stock models.

`packaged` reads graphs from packages, `data` lists them and draws labels, `methods` label their
items, and `page` writes docs/graphs.md from the results file alone.
"""
