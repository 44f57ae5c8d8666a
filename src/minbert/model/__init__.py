"""The encoder, the sharing of its layers, pooling and heads. Knows no data sets."""
