"""MLflow: what jobs write for it, the follower that stores it, the UI."""
