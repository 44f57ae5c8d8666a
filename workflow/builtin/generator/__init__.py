"""The built-in corpus and backbone: a small world in which all tasks speak one language."""
