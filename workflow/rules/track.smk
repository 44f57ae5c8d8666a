# Start and end of a workflow. Devices: where training runs. MLflow: one follower stores what the jobs measure, from the start
# to the end. After an error: what there is gets published.
#
# in:  tracking/ATTEMPT/{run.json,history.jsonl,end.json}, written by training jobs
# out: mlflow.db, mlartifacts/

MINBERT = [sys.executable, "-m", "minbert"]


def start_follower():
    """Start the follower in a session of its own: Ctrl-C must not take it before its last pass."""
    command = [*MINBERT, "follow", "--results", str(ROOT), "--until", str(os.getpid())]
    LOGS.mkdir(parents=True, exist_ok=True)
    with open(LOGS / "follower.log", "a", encoding="utf-8") as sink:
        subprocess.Popen(command, stdout=sink, stderr=sink, start_new_session=True)


def last_pass():
    """Store what is left, so that all is there when Snakemake ends."""
    subprocess.run([*MINBERT, "follow", "--results", str(ROOT), "--once"], check=False)


def publish_what_there_is():
    """Rows that failed or were not reached never block the others: tables show them as such."""
    subprocess.run(
        [*MINBERT, "publish", PLAN.stamp, "--partial", "--results", str(ROOT)], check=False
    )


def tell_devices():
    """Say once where training will run; on Slurm, end what a killed Snakemake has left there."""
    if not on_cluster():
        print(in_words(PLAN.config.device), file=sys.stderr)
        return
    wish = PLAN.config.device
    none = "run on CPUs: the cluster has no GPU" if wish == "auto" else f"run on {wish}"
    asks = "ask for a GPU each" if demand().gpu else none
    print(f"training jobs {asks}", file=sys.stderr)
    if left := cancel_orphans(Path.cwd()):
        print(f"cancelled jobs that an earlier Snakemake left: {' '.join(left)}", file=sys.stderr)


onstart:
    tell_devices()
    if PLAN.config.tracking.enabled:
        start_follower()


onsuccess:
    if PLAN.config.tracking.enabled:
        last_pass()


onerror:
    if PLAN.config.tracking.enabled:
        last_pass()
    publish_what_there_is()
