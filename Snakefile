# minbert: every row of every table is data in a grid; this file chains the steps that make them.
#
#   snakemake --cores 8 all          everything that config.yaml asks for
#   snakemake --cores 8 -n all       what would run
#   minbert plan                     the same, variant by variant, with reasons and time

import gc
import os
import shlex
import sys
from pathlib import Path

from minbert.base.errors import reraise_as
from minbert.commands.session import SOON, Rules, Session
from minbert.plan.describe import record_of
from minbert.plan.pending import asked, check_sources, pending
from minbert.plan.outputs import load_plan
from minbert.spec.config import config_files
from minbert.store.node import digest
from snakemake.exceptions import WorkflowError
from snakemake.logging import logger

# Snakemake makes millions of objects that live as long as it does. To look through them for garbage
# as often as Python does takes a sixth of the time of a long grid's start.
gc.set_threshold(500_000, 50)

BASE = Path(os.path.abspath(workflow.snakefile)).parent
MAIN = workflow.modifier.is_main_snakefile()  # else a module of another workflow

# The configuration is read here, as `minbert plan` does: Snakemake's own reader takes 010 for 8,
# and the second of two equal keys. Jobs that start elsewhere are given the same files and words.
# A module's configuration is what the other workflow gives it.
GIVEN = workflow.config_settings
# This process submits jobs to a cluster, or is one of them: no cores are shared.
CLUSTER = workflow.remote_exec or workflow.non_local_exec
with reraise_as(WorkflowError):
    if MAIN and not GIVEN.replace_workflow_config:
        FILES = config_files(GIVEN.configfiles, Path("config.yaml"))
        workflow.configfiles = [str(file) for file in FILES]
    FILES = [Path(file) for file in workflow.configfiles]
    PLAN = load_plan(FILES, BASE, GIVEN.config_args) if MAIN else load_plan(config, BASE)
    NAME = digest(record_of(PLAN))  # of the record that its jobs read (store.plans)
    JOBS = pending(PLAN)
    check_sources(JOBS)
    CORES = None if CLUSTER else workflow.resource_settings.cores
    JOB = Rules(JOBS, NAME, CORES)

config.update(PLAN.config.model_dump(mode="json"))


STORE = PLAN.root / "store"
LOGS = PLAN.root / "logs"

# Jobs use the Python that runs Snakemake, even if no environment is activated; with --sdm conda
# they use their environment's Python, and the minbert beside this file.
if workflow.deployment_settings.deployment_method:
    shell.prefix(f"export PYTHONPATH={shlex.quote(str(BASE / 'src'))}; ")
else:
    shell.prefix(f"export PATH={shlex.quote(str(Path(sys.executable).parent))}:$PATH; ")


wildcard_constraints:
    key="[0-9a-f]{16}",
    seed="[0-9]+",


# On a cluster these run beside Snakemake: nodes often have no network, and copying is quick.
localrules:
    fetch,
    plain,
    publish,


if "hub" in PLAN.sources.backbone.spec:

    localrules:
        backbone,


rule all:
    input:
        asked(JOBS),


include: "workflow/rules/common.smk"
include: "workflow/rules/data.smk"
include: "workflow/rules/train.smk"
include: "workflow/rules/evaluate.smk"


SESSION = Session(JOB, logger)


onstart:
    with reraise_as(WorkflowError):
        SESSION.start(workflow)


onsuccess:
    SESSION.end()


onerror:
    SESSION.end(partial="publish" in {job.rule.name for job in workflow.dag.jobs})
