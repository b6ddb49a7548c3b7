"""Compiled loops, and the little Python that shares them out.

Kernels take contiguous arrays, check nothing and print nothing: the public functions of the other
rooms validate and allocate. They release the interpreter lock, so that plain Python threads run
them side by side (:mod:`metricmix.kernels.threads`); no threading layer of numba is involved, which
keeps forks, nested thread pools and loky workers safe.
"""
