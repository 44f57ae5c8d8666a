"""Results under their plain names."""
