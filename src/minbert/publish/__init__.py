"""Results under their readable names, and in bundles."""
