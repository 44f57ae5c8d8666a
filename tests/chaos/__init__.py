"""Kill everything at random moments, run again until done, and find no difference.

make chaos                                        50 kills, seed 1
PYTHONPATH=tests python -m chaos --kills 200      more of them
"""
