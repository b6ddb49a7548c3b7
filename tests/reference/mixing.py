"""Edge lengths by their formula, one number at a time."""

from __future__ import annotations

import math

import numpy as np


def softplus(m, beta=1.0):
    """log(1 + exp(beta m)) / beta, for one moderate number."""
    return math.log(1.0 + math.exp(beta * m)) / beta


def sigmoid(m, beta=1.0):
    """The derivative of `softplus`."""
    return 1.0 / (1.0 + math.exp(-beta * m))


def lengths(sources, weights, beta=1.0, link="softplus"):
    """Return w_uv = link(sum_r weights_r sources_r[u, v]), and 0 where u = v."""
    n = len(sources[0])
    w = np.zeros((n, n))
    for u in range(n):
        for v in range(n):
            if u != v:
                m = sum(a * float(M[u, v]) for a, M in zip(weights, sources, strict=True))
                w[u, v] = softplus(m, beta) if link == "softplus" else max(m, 0.0)
    return w
