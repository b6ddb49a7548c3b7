"""Kinds of sources, one file each.

A kind is a class ``(spec, data) -> ItemSource`` that registers itself with
:data:`~metricmix.dissimilarity.specs.KINDS`. Its decorator states, in literals:

====================  ============================================================================
``words``             what it is, for lists and help
``example``           how it is written on the command line
``needs``             what it is computed from: "columns", and one of "relation", "memberships"
                      and "matrix"; a kind that is computed from a relation also takes memberships
``needs_of_groups``   the same for memberships, if it differs
``report``            words for a report; ``{regression}`` and ``{labels}`` depend on whether there
                      are classes or numbers to predict
``report_of_groups``  the same for memberships, if it differs
``report_of_view``    the same for a stated view, if it differs
``kind_of_groups``    the kind that is taken for memberships in its place
``options``           what it takes besides the options of a file of edges
``model``             what is fitted to labels or targets: "linear", "forest" or "spread"; only
                      supervised kinds state it
``view``              whether it is the distance between rows, by which models can be fitted and
                      near items found
``directed``          whether directed edges or entries make it directed
====================  ============================================================================
"""
