"""The audit by mutation: no small change of the package may leave a result stale.

The long form is `make audit` (`python -m audit --help`); `tests/pipeline/test_audit.py` is the
short one.
"""
