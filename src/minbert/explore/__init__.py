"""Finished results from Python (`minbert.open`), and how two variants differ."""
