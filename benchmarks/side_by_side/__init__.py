"""Other libraries and this one on the same items, labels and machine: ``docs/comparison.md``."""
