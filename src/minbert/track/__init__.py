"""What jobs report of their runs, and how it reaches MLflow.

Jobs write plain files (`journal`, `runs`); one process (`follower`) copies them into the store
(`store`), so that a job never waits for a server and never imports mlflow.
"""
