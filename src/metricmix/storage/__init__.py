"""Model files: metrics and fitted estimators without pickles.

=================  ==========================================================================
:mod:`.models`     ``save`` and ``load``
:mod:`.codec`      values as JSON and arrays, and back; estimators of scikit-learn
:mod:`.container`  the file itself
=================  ==========================================================================

What is stored of an object is said beside its class (:mod:`metricmix.state`). Loading runs nothing
that a file says: classes have registered themselves, arrays are plain numbers, and functions come
from the caller, by name. It either gives a model whose parts are consistent or raises a
:class:`~metricmix.exceptions.ModelFileError`. The checksums detect damage; they do not tell who
wrote a file.
"""
