"""Other methods, one file per family, written from the papers that the files cite.

A peer is a function from a case (and a seed, where it draws numbers) to at most six variants: the
setting in words, and a class for every item. The variant that is right most often on the validation
items is the one that is tested.
"""
