"""From a pooled embedding, or features of two of them, to a task's logits."""
