"""PCGrad as the library Pytorch-PCGrad computes it (minbert-downstream, section 3.3.5)."""

from minbert.train.surgery.pcgrad import PCGrad


class PytorchPCGrad(PCGrad):
    """As `PCGrad`, with three differences.

    A task's gradient is that of all trained parameters, its head's too, so that a long gradient of
    a head makes the projections onto that task's normal plane smaller. A head's gradient changes
    with its task's: it is multiplied by the task's weight. The update is the mean of the projected
    gradients where all tasks have one, and their sum elsewhere. And the others, in random order,
    include the gradient itself, with which the projected one may conflict if there are three tasks
    or more.
    """

    whole = itself = True
