"""Training: samplers, losses, gradient surgery, schedules, the loop."""
