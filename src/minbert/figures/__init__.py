"""Figures of results. Reads parquet only; knows no torch."""
