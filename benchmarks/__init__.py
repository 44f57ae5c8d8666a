"""Speed against what a user would pick instead: `make bench`, or `python -m benchmarks --help`."""
