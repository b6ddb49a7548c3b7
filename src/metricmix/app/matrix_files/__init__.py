"""Dissimilarity matrices in the files people keep them in, with the names of their items.

====================  ==========================================================================
``.npy``, ``.npz``    a square array; in an npz the only one there is, or the one called "matrix",
                      with its names in "items" if there are any
``.csv``, ``.tsv``,   numbers, with or without names in the first row, the first column or both;
``.txt``              tabs, semicolons, commas or spaces between; decimal points, or commas where
                      these do not separate; empty cells and "NA" are unknown
``.phy``,             PHYLIP: the number of items, then a name and its distances for each; square or
``.phylip``,          a triangle; names up to the first space, or ten characters with spaces in them
``.dist``
====================  ==========================================================================

Where all entries on one side of the diagonal are unknown, the other side counts for both; an
unknown entry on the diagonal is 0.
"""

from metricmix.app.matrix_files.arrays import MatrixFile
from metricmix.app.matrix_files.formats import check_target, read_matrix, write_matrix

__all__ = ["MatrixFile", "check_target", "read_matrix", "write_matrix"]
