"""Which GPU a job uses, and how the jobs on one machine share its GPUs."""
