"""Gradient surgery: from the Gramian of task gradients to one weight per task.

A method sees only the Gramian G = J J^T of the shared parameters' gradients, J [tasks, P]. Its
update is a combination of the rows of J, so it returns weights w [tasks]: the update is w J.
"""
