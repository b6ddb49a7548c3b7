"""Which default sources pay: candidate sets on data to choose by, and the choice on other data."""
