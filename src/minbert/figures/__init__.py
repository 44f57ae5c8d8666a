"""Figures, one module each. Reads parquet only; knows no torch."""
