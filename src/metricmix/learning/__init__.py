"""Learning: from a stack of sources and known labels or targets to a metric and a rule.

=====================  =============================================================================
:mod:`.learned`        what learning takes and leaves: settings; mixture, metric, rule
:mod:`.task`           what is predicted: classes, or numbers
:mod:`.learn`          weights from labels, on edge lengths or through paths
:mod:`.examples`       classes as supervised sources know them, in a metric that needs no paths
:mod:`.rules`          from distances to labels or numbers; one file each
:mod:`.candidates`     what selection chooses from
:mod:`.selection`      weights, ridge, rule and sources, on held-out labels; then learning
:mod:`.refits`         learning again on other labels: folds, resamples, candidates
:mod:`.held_out`       what refits say of labelled items: answers, misfits, typical items
:mod:`.comparison`     the learned metric beside simpler methods
:mod:`.bootstrap`      intervals of the weights
:mod:`.explanation`    why an item has its label
:mod:`.findings`       what may be wrong with a metric
=====================  =============================================================================
"""
