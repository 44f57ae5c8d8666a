"""Training: samplers, losses, gradient surgery, task weightings, schedules, the loop."""
