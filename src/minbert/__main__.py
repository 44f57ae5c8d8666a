"""`python -m minbert`: the command line."""

from minbert.commands.cli import main

main()
