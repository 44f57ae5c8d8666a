# Scores, tables, figures and the report, made under their keys, then published under readable names.
#
# in:  store/train/KEY/seedN/{predictions,history}.parquet and run.json, store/data/KEY/examples.parquet
# out: store/{tuning,scores,table,figure,index,claims,report}/KEY/..., published as tables/*,
#      figures/PAPER/*, figures/all/* and report.html


# Two jobs for each paper, scores_PAPER (with its tuning and table) and figures_PAPER; figures_all;
# and `summary`: index, claims and report. A job makes what is missing of its files.
for GROUP, INPUTS, OUTPUTS, STEP in JOB.groups():

    rule:
        name:
            GROUP
        input:
            INPUTS,
        output:
            OUTPUTS,
        log:
            LOGS / f"{GROUP}.log",
        priority: SOON
        conda:
            "../../envs/minbert.yaml"
        threads: 2 if GROUP == "summary" else 1
        resources:
            mem_mb=lambda w, attempt: 2200 * attempt,
            runtime=lambda w, attempt: 30 * attempt,
        params:
            step=STEP,
        shell:
            "exec python -m minbert {params.step} --threads {threads} 2> {log:q}"


# The mark is named by the hash of everything published, and by a new number whenever the readable names
# do not hold what the configuration asks for.
rule publish:
    input:
        ancient([of.folder(PLAN.root) / name for of in PLAN.shown.values() for name in of.outputs]),
    output:
        PLAN.mark,
    log:
        LOGS / "publish.log",
    priority: SOON
    conda:
        "../../envs/minbert.yaml"
    params:
        step=f"publish {shlex.quote(str(PLAN.mark))} {JOB.at}",
    shell:
        "exec python -m minbert {params.step} 2> {log:q}"


# One file by its readable name: snakemake --cores 8 results/figures/hybrid-bert/ranking.pdf
use rule publish as plain with:
    input:
        lambda w: JOB.stored_path(w, workflow.dag),
    output:
        PLAN.names / "{name}",
    log:
        LOGS / "plain" / "{name}.log",
    wildcard_constraints:
        name=r"(tables|figures)/.+|report\.html",
    params:
        step=lambda w: f"publish-one {shlex.quote(w.name)} {JOB.at}",
