"""From the hidden states of tokens (with `first_only`, of first ones) to one embedding per row."""
