"""What is made, by its key: nodes, code digests, jobs."""
