# Start and end of a workflow. Lock: nothing deletes results while it runs. Devices: the terminal
# says where training runs. MLflow: one follower stores what jobs measure while they run. Terminal:
# lines on progress, and a summary at the end. After an error, whatever finished is published.
#
# in:  tracking/ATTEMPT/{run.json,history.jsonl,end.json}, written by training jobs
# out: mlflow.db, mlartifacts/

MINBERT = [sys.executable, "-m", "minbert"]
TOLD = ["--results", str(ROOT), "--plan", NAME]


def note_command():
    """Record Snakemake's command for the report; jobs have their own."""
    LOGS.mkdir(parents=True, exist_ok=True)
    words = [Path(sys.argv[0]).name, *sys.argv[1:]]
    (LOGS / "command.txt").write_text(shlex.join(words) + "\n", encoding="utf-8")


def start_follower():
    """Start the follower in its own session: Ctrl-C must not end it before its last pass."""
    command = [*MINBERT, "follow", *TOLD]
    command += ["--until", str(os.getpid())]
    LOGS.mkdir(parents=True, exist_ok=True)
    with open(LOGS / "follower.log", "a", encoding="utf-8") as sink:
        subprocess.Popen(command, stdout=sink, stderr=sink, start_new_session=True)


def last_pass():
    """Store what is left, so that MLflow is complete when Snakemake ends."""
    command = [*MINBERT, "follow", *TOLD]
    subprocess.run([*command, "--once"], check=False)


def publish_what_there_is():
    """Publish finished rows; tables mark the others as failed or not run."""
    subprocess.run([*MINBERT, "publish", *TOLD, "--partial"], check=False)


def tell_devices():
    """Report once where training will run; on Slurm, cancel jobs of a killed Snakemake."""
    if not on_cluster():
        with retold(WorkflowError):
            print(in_words(PLAN.config.device), file=sys.stderr)
        return
    wish = PLAN.config.device
    none = "run on CPUs: the cluster has no GPU" if wish == "auto" else f"run on {wish}"
    asks = "ask for a GPU each" if demand().gpu else none
    print(f"training jobs {asks}", file=sys.stderr)
    if left := cancel_orphans(Path.cwd()):
        print(f"cancelled jobs that an earlier Snakemake left: {' '.join(left)}", file=sys.stderr)


def watch():
    """Start printing the workflow's progress."""
    jobs = [Work.of(job.rule.name, job.wildcards_dict) for job in workflow.dag.needrun_jobs()]
    limits = workflow.resource_settings
    others = limits.nodes or limits.cores or 1
    slots = limits.nodes or others // threads_each()
    shown = [job for job in jobs if job.rule != "all"]
    made = Watch(PLAN, shown, slots, others, gpu=demand().gpu)
    made.start(logger)
    return made


def tell_places():
    """Say where the results are if there is nothing to be done: then no handler below is called."""
    logger.addHandler(Idle(places(ROOT, PLAN.names, PLAN.config.tracking.enabled, called())))


def summary():
    """Stop printing progress; report what ran, its results, and where to look."""
    WATCH.stop()
    print(f"\n{WATCH.ran()}", file=sys.stderr, flush=True)
    subprocess.run([*MINBERT, "summary", *TOLD], check=False)


tell_places()


onstart:
    global WATCH, HELD
    HELD = contextlib.ExitStack()  # until this process ends
    with retold(WorkflowError):
        HELD.enter_context(in_use(ROOT))
        HELD.enter_context(only_one(STORE / "plans", f"a workflow on {ROOT}"))
        if PLAN.config.tracking.enabled:
            check_store(ROOT)
        write(PLAN)
    tell_devices()
    note_command()
    if PLAN.config.tracking.enabled:
        start_follower()
    WATCH = watch()


onsuccess:
    if PLAN.config.tracking.enabled:
        last_pass()
    summary()


onerror:
    if any(
        job.rule.name == "publish" for job in workflow.dag.jobs
    ):  # else a part was asked for
        publish_what_there_is()
    if PLAN.config.tracking.enabled:
        last_pass()
    summary()
