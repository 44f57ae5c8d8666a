"""What every part uses: errors, files, locks, processes, progress.

All modules here but `files` are outside every code digest (`minbert.store.code`): editing them
retrains nothing, so nothing that can change a number belongs in them.
"""
