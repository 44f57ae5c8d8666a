# Start and end of a workflow. MLflow: one follower stores what the jobs measure, from the start
# to the end. After an error: what there is gets published.
#
# in:  tracking/ATTEMPT/{run.json,history.jsonl,end.json}, written by training jobs
# out: mlflow.db, mlartifacts/

MINBERT = [sys.executable, "-m", "minbert"]


def note_command():
    """Leave the command for the report: jobs have one of their own."""
    LOGS.mkdir(parents=True, exist_ok=True)
    words = [Path(sys.argv[0]).name, *sys.argv[1:]]
    (LOGS / "command.txt").write_text(shlex.join(words) + "\n", encoding="utf-8")


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


onstart:
    note_command()
    if PLAN.config.tracking.enabled:
        start_follower()


onsuccess:
    if PLAN.config.tracking.enabled:
        last_pass()


onerror:
    if PLAN.config.tracking.enabled:
        last_pass()
    publish_what_there_is()
