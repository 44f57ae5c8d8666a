"""From the tokens' hidden states to one embedding a row."""
