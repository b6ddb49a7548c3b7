"""Compiled loops that several algorithms share, and the threads that run them.

Kernels take contiguous arrays, validate nothing and print nothing: the public functions of the
other packages validate and allocate. A loop that serves one algorithm lives in the file of that
algorithm. Kernels release the interpreter lock, so that plain Python threads run them in parallel
(:mod:`metricmix.kernels.threads`); no threading layer of numba is involved, which keeps forks,
nested thread pools and loky workers safe.
"""
