"""What an experiment says: tasks, parts, stages, configuration, grids. Knows no torch."""
