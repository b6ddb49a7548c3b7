r"""Prediction rules: from the learned metric and known labels or targets to answers.

==================  ====================  ==========================================================
name                object                class probabilities of an item x
==================  ====================  ==========================================================
``"class-mean"``    :class:`ClassMean`    :math:`p_c \propto e^{-s_c}`, with the distance to the
                                          mean of a class :math:`s_c(x) = \mathrm{mean}_{i \in c}\,
                                          d(x, i) - \tfrac12 \mathrm{mean}_{i, j \in c}\, d(i, j)`
``"logistic"``      :class:`Logistic`     multinomial logistic regression on the distances to the
                                          labelled items, double-centred
``"nearest"``       :class:`Nearest`      the class of the nearest labelled item (the paper);
                                          :math:`p_c \propto e^{-d_c}`, :math:`d_c` the distance to
                                          class c
``"k-nearest"``     :class:`KNearest`     votes of the k nearest labelled items
``"spreading"``     :class:`Spreading`    labels spread over the neighbour graph of the metric
==================  ====================  ==========================================================

==================  ====================  ==========================================================
name                object                number that is predicted for an item x
==================  ====================  ==========================================================
``"kernel-ridge"``  :class:`KernelRidge`  :math:`a + \sum_s c_s\, g_s(x)`, with the distances
                                          to items of known target, double-centred,
                                          :math:`g_s(x) = -\tfrac12 \big(d(x, s) - \bar d(x) -
                                          \bar d(s) + \bar d\big)`
``"k-nearest"``     :class:`NearestMean`  mean target of the k nearest items of known target
==================  ====================  ==========================================================

A rule object holds the settings of a rule and nothing else; it is one file here, and registers
itself by its name. :class:`FittedRule` applies it to a metric and what is known of its items: to
all items of the stack at once, and to new items joined to them. Nearest labels come from one search
that starts at all labelled items together, class means from one shortest-path tree per labelled
item: never one search per unlabelled item. Targets more than ten interquartile ranges outside the
quartiles are clipped first (:func:`~metricmix.dissimilarity.predictions.moved_in`).
"""

from metricmix.learning.rules.class_mean import ClassMean
from metricmix.learning.rules.kernel_ridge import KernelRidge
from metricmix.learning.rules.logistic import Logistic
from metricmix.learning.rules.nearest import KNearest, Nearest, NearestMean
from metricmix.learning.rules.rule import (
    CLASS_RULES,
    NUMBER_RULES,
    FittedRule,
    Rule,
    as_rule,
)
from metricmix.learning.rules.spreading import Spreading

__all__ = [
    "CLASS_RULES",
    "NUMBER_RULES",
    "ClassMean",
    "FittedRule",
    "KNearest",
    "KernelRidge",
    "Logistic",
    "Nearest",
    "NearestMean",
    "Rule",
    "Spreading",
    "as_rule",
]
