# Scores, tables, figures and the report, made under their keys, then published under plain names.
# Snakemake's own report (`snakemake --report FILE`) takes them from these rules, with the captions
# in workflow/report.
#
# in:  store/train/KEY/seedN/{predictions,history}.parquet and run.json, store/data/KEY/examples.parquet
# out: store/{tuning,scores,table,index,claims,figure,report}/KEY/..., published as tables/*,
#      figures/PAPER/*, figures/all/* and report.html


use rule step as scores with:
    input:
        JOB.made_from("train", "tuning", "labels"),
    output:
        STORE / "scores" / "{key}" / "scores.parquet",
    log:
        LOGS / "scores" / "{key}.log",


use rule step as tuning with:
    input:
        JOB.made_from("train"),
    output:
        JOB.shown(STORE / "tuning" / "{key}" / "tuning.csv"),
        JOB.shown(STORE / "tuning" / "{key}" / "tuning.md"),
    log:
        LOGS / "tuning" / "{key}.log",
    params:
        caption=lambda w: JOB.said(w).caption,
        published=lambda w: JOB.said(w).published,


use rule tuning as table with:
    input:
        JOB.made_from("scores", "tuning"),
    output:
        JOB.shown(STORE / "table" / "{key}" / "table.csv"),
        JOB.shown(STORE / "table" / "{key}" / "table.md"),
        STORE / "table" / "{key}" / "table.tex",
    log:
        LOGS / "table" / "{key}.log",


use rule tuning as index with:
    input:
        JOB.made_from("table"),
    output:
        JOB.shown(STORE / "index" / "{key}" / "index.csv"),
        JOB.shown(STORE / "index" / "{key}" / "index.md"),
    log:
        LOGS / "index" / "{key}.log",


use rule tuning as claims with:
    input:
        JOB.made_from("scores", "train"),
    output:
        JOB.shown(STORE / "claims" / "{key}" / "claims.csv"),
        JOB.shown(STORE / "claims" / "{key}" / "claims.md"),
        STORE / "claims" / "{key}" / "claims.tex",
    log:
        LOGS / "claims" / "{key}.log",


use rule tuning as figure with:
    input:
        JOB.made_from("scores", "train", "rows"),
    output:
        JOB.shown(STORE / "figure" / "{key}" / "figure.pdf"),
        JOB.shown(STORE / "figure" / "{key}" / "figure.png"),
    log:
        LOGS / "figure" / "{key}.log",


use rule tuning as report with:
    input:
        JOB.made_from(
            "index", "claims", "table", "tuning", "scores", "figure", "train", "data", "labels"
        ),
    output:
        JOB.shown(STORE / "report" / "{key}" / "report.html"),
    log:
        LOGS / "report" / "{key}.log",
    threads: 2  # pictures are reduced in parallel, and nothing else is left to run


# The mark is named by the hash of everything published, and by a new number whenever the plain names
# do not hold what the configuration asks for.
rule publish:
    input:
        ancient(PLAN.copied),
    output:
        PLAN.mark,
    log:
        LOGS / "publish.log",
    priority: SOON
    conda:
        "../../envs/minbert.yaml"
    params:
        at=JOB.at,
        what=f"--mark {shlex.quote(str(PLAN.mark))}",
    shell:
        "exec python -m minbert publish {params.at} {params.what} 2> {log:q}"


# One file by its plain name: snakemake --cores 8 results/figures/hybrid-bert/ranking.pdf
use rule publish as plain with:
    input:
        lambda w: JOB.keyed(w, workflow.dag),
    output:
        PLAN.names / "{name}",
    log:
        LOGS / "plain" / "{name}.log",
    wildcard_constraints:
        name=r"(tables|figures)/.+|report\.html",
    params:
        what=lambda w: f"--name {shlex.quote(w.name)}",
