"""Encoders other than BERT: what Hugging Face calls their settings and tensors."""
