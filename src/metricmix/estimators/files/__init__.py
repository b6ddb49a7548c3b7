"""Fitted estimators in files, without pickles.

=================  ==========================================================================
:mod:`.models`     ``save`` and ``load``
:mod:`.tables`     what is stored of which class, and of which type
:mod:`.writer`     values become JSON, and arrays of numbers
:mod:`.reader`     and values again, each checked
:mod:`.container`  the file itself
=================  ==========================================================================

Classifiers of scikit-learn (:mod:`.classifiers`) and stacks over sparse edges
(:mod:`.edge_stacks`) have modules of their own.

In the JSON, None, booleans, integers, finite numbers, text and lists are stored as they are;
everything else is a dictionary with one entry, whose key says what it is:
``{"tuple": [1, 2]}``, ``{"float": "inf"}``, ``{"dict": [["a", 1]]}``, ``{"scalar": ["<f4", 0.5]}``,
``{"KNearest": {"n_neighbors": 5, "weights": "uniform"}}``. An estimator is

::

    {"MetricMixtureClassifier":
        parameters      those of the constructor
        fitted          what FITTED lists for the class: input, result, classes, codes, ...}

What is stored is declared, not programmed: the tables FITTED and PARTS name the attributes of
estimators and of other objects with their types. Of most objects these are the arguments of the
constructor with their annotations. On load every value is checked against its type, and then
against the others. What follows from them, such as fitted rules, is computed again.

Loading runs nothing that a file says: classes come from tables, arrays are plain numbers, and
functions come from the caller, by name. It either gives a model whose parts are consistent or
raises a :class:`~metricmix.exceptions.ModelFileError`. The checksums detect damage; they do not
tell who wrote a file.
"""
