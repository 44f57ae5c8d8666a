"""Experiments as data: typed specs, inheritance, stages, keys, plans. Knows no torch."""
