# MLflow: one follower stores what the jobs measure; it starts and ends with the workflow.
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


if PLAN.config.tracking.enabled:

    onstart:
        start_follower()

    onsuccess:
        last_pass()

    onerror:
        last_pass()
