"""What jobs report of their runs, and how it reaches MLflow.

Jobs write plain files (`journal`, `runs`, `rows`); one process (`follower`, `writer`) copies
them into the store (`store`, `papers`, `rows`), so that a job never waits for a server and never
imports mlflow.
"""
