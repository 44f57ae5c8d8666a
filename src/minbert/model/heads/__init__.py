"""From an embedding, or features of two, to a task's logits."""
