"""Figures, one module each. Reads parquet only; knows no torch."""

import os

for name in ("MPLBACKEND", "SOURCE_DATE_EPOCH"):  # Matplotlib fails by values that it cannot read.
    os.environ.pop(name, None)
