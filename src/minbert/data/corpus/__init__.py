"""The language of the built-in corpus, in which all tasks speak, so that each helps the others."""
