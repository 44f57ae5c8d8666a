"""What a training job tells about itself, and how it reaches MLflow.

Jobs write plain files (`journal`); one follower process copies them into the store (`follower`).
So a job never waits for a server, and never imports mlflow.
"""
