"""Which GPU a job computes on, and how jobs on one machine share them."""
