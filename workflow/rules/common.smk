# What the other rule files use.
#
# Short jobs that a cluster groups take turns. `turn` is what they share, and a group has one of it
# (profiles/slurm), so that it asks for no more than one of its jobs does.


def shown(path, kind, form):
    """Mark a file for `snakemake --report`: under its paper, with a caption of its own."""
    return report(
        path,
        caption="../report/product.rst",
        category=lambda w: describe(PLAN, kind, w.key).category,
        labels=lambda w: {"what": describe(PLAN, kind, w.key).title, "file": form},
    )


def unaged(paths):
    """Mark inputs whose age says nothing, as their keys say what they hold.

    A copy of the results that has lost its times then trains nothing anew.
    """
    return {name: ancient(path) for name, path in paths.items()}


def on_cluster():
    """Whether jobs run on a cluster: here is where they are submitted, or one of them."""
    return workflow.remote_exec or workflow.non_local_exec


def shared_cores():
    """Cores that jobs have between them; None on a cluster, where each asks for its own."""
    return None if on_cluster() else workflow.resource_settings.cores


@functools.cache
def threads_each():
    """CPU threads of a job that trains."""
    return job_threads(PLAN, shared_cores())


@functools.cache
def demand():
    """What jobs ask for. On one machine they lease its GPUs: only Slurm hands them out."""
    return Demand(PLAN, gpu=has_gpus(PLAN.config.device) if on_cluster() else None)


def mem_mb(kind):
    """Main memory of a job, which a node is asked for; twice as much after each failure."""
    return lambda w, attempt: demand().mem_mb(kind, w.key, attempt)


def minutes(kind):
    """Time of a job; twice as much after each failure."""
    return lambda w, attempt: demand().minutes(kind, w.key, attempt)


def gpus(kind):
    """GPUs that Slurm is to give a job."""
    return lambda w: demand().gpus(kind, w.key)
