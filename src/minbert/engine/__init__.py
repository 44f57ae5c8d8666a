"""How fast and how safely a run computes: device, memory, checkpoints. Outside every digest."""
