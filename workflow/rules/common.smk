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
    files = inputs(JOBS, (PLAN.node(kind, key), seed), apart=on_cluster())
    return [ancient(path) for path in files]


def keyed(name):
    """Return the keyed file of a plain name.

    Snakemake goes by age alone, which says nothing of what a plain file holds: if that is not the
    keyed one's content, the file is forced, as by `--forcerun`.
    """
    with retold(WorkflowError):
        source, plain = PLAN.product(name), PLAN.names / name
    same = source.exists() and plain.exists() and filecmp.cmp(source, plain, shallow=False)
    if not same:
        workflow.dag.forcefiles.add(str(plain))
    return ancient(source)


def on_cluster():
    """Whether jobs run on a cluster: this process submits them, or is one of them."""
    return workflow.remote_exec or workflow.non_local_exec


def shared_cores():
    """Cores that all jobs share; None on a cluster, where each job asks for its own."""
    return None if on_cluster() else workflow.resource_settings.cores


@functools.cache
def threads_each():
    """CPU threads of a training job."""
    return job_threads(PLAN, JOBS, shared_cores())


@functools.cache
def demand():
    """What jobs ask for. Only Slurm assigns GPUs; on one machine jobs lease them."""
    with retold(WorkflowError):
        return Demand(PLAN, gpu=has_gpus(PLAN.config.device) if on_cluster() else None)


def mem_mb(kind):
    """Main memory that a job asks for; doubles after each failure."""
    return lambda w, attempt: demand().mem_mb(kind, w.key, attempt)


def minutes(kind):
    """Time that a job asks for; doubles after each failure."""
    return lambda w, attempt: demand().minutes(kind, w.key, attempt)


def gpus(kind):
    """GPUs that a job asks Slurm for."""
    return 0 if not on_cluster() else lambda w: demand().gpus(kind, w.key)


# Tables, figures and reports are made in seconds: as soon as they can be, before more training.
SHOWN = 10**12


@functools.cache
def begun():
    """The longest chain of trainings that begins with each job."""
    return chains(JOBS, demand().costs)


def urgency(kind):
    """Milliseconds of the longest chain of trainings that begins with a job: the longest first."""

    def milliseconds(w):
        job = PLAN.node(kind, w.key), int(w.seed) if kind in SEEDED else None
        return math.ceil(1000 * begun()[job].seconds) if job in JOBS else 0

    return 0 if workflow.remote_exec else milliseconds
