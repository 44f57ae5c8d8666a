"""Scores, statistics and tables. Reads parquet only; knows no torch."""
