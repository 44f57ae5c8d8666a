"""Pages of the documentation that are made from the code; tests hold them to it."""
