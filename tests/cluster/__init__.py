"""A real Slurm cluster of one node, and grids that run on it while it is disturbed.

make test-cluster                            all of it
pytest tests/cluster                         the short form; skips where Slurm cannot be had
"""
