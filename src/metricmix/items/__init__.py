"""What is known of items: ids, typed columns, relations, matrices, labels."""
