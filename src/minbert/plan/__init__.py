"""From a configuration to the nodes of all that is made, and what they cost. Knows no torch."""
