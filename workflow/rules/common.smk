# Functions that the other rule files use.
#
# Short jobs that a cluster groups take turns: each needs one `turn`, and a group has one
# (profiles/slurm), so that it asks for no more than its largest job.


# What every job is told: the results root, and the plan that it belongs to.
AT = f"--results {shlex.quote(str(ROOT))} --plan {NAME}"


def shown(path, kind, form):
    """Mark a file for `snakemake --report`: under its paper, with its own caption."""
    return report(
        path,
        caption="../report/product.rst",
        category=lambda w: describe(PLAN, kind, w.key).category,
        labels=lambda w: {"what": describe(PLAN, kind, w.key).title, "file": form},
    )


def unaged(kind, key, seed=None):
    """Return a job's inputs. Their age does not matter, as their paths say what they hold.

    So a copy of the results that has lost its times makes nothing again.
    """
    return {name: ancient(path) for name, path in inputs(PLAN, JOBS, kind, key, seed).items()}


def on_cluster():
    """Whether jobs run on a cluster: this process submits them, or is one of them."""
    return workflow.remote_exec or workflow.non_local_exec


def shared_cores():
    """Cores that all jobs share; None on a cluster, where each job asks for its own."""
    return None if on_cluster() else workflow.resource_settings.cores


@functools.cache
def threads_each():
    """CPU threads of a training job."""
    return job_threads(PLAN, shared_cores())


@functools.cache
def demand():
    """What jobs ask for. Only Slurm assigns GPUs; on one machine jobs lease them."""
    return Demand(PLAN, gpu=has_gpus(PLAN.config.device) if on_cluster() else None)


def mem_mb(kind):
    """Main memory that a job asks for; doubles after each failure."""
    return lambda w, attempt: demand().mem_mb(kind, w.key, attempt)


def minutes(kind):
    """Time that a job asks for; doubles after each failure."""
    return lambda w, attempt: demand().minutes(kind, w.key, attempt)


def gpus(kind):
    """GPUs that a job asks Slurm for."""
    return lambda w: demand().gpus(kind, w.key)
