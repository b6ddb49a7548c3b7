"""Accuracy on citation networks: all choices on validation items, nothing on test items."""
