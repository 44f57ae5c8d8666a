"""What every part uses and no result depends on: errors, files, progress, processes.

Modules in this folder are left out of every code digest (`minbert.grid.code`): editing them
retrains nothing. Nothing that can change a number belongs here.
"""
