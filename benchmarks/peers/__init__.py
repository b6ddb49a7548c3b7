"""Methods of others, written anew from their descriptions, to measure against."""
