"""`python -m minbert`: the command line."""

from minbert.cli import main

main()
