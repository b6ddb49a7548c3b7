"""The application: user files in, a fitted model and a page out."""
