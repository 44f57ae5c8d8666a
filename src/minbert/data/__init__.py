"""From raw files to typed example tables and tokens. Knows no torch."""
