"""Results under their plain names, and in bundles."""
