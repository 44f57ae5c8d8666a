"""Penalties that are added to a task's loss."""
