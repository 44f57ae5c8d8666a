"""The language of the built-in corpus: its vocabulary, its sentences and what they mean."""
