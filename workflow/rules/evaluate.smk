# Scores, tables and figures, made under their keys, then published under plain names.
#
# in:  store/train/KEY/seedN/{predictions,history}.parquet and run.json, store/data/KEY/examples.parquet
# out: store/{tuning,scores,table,index,claims,figure}/KEY/..., tables/*, figures/PAPER/*, figures/all/*


rule tuning:
    input:
        lambda w: unaged("tuning", w.key),
    output:
        shown(STORE / "tuning" / "{key}" / "tuning.csv", "tuning", "csv"),
        shown(STORE / "tuning" / "{key}" / "tuning.md", "tuning", "md"),
    log:
        LOGS / "tuning" / "{key}.log",
    priority: SHOWN
    conda:
        "../../envs/minbert.yaml"
    resources:
        mem_mb=mem_mb("tuning"),
        runtime=minutes("tuning"),
    params:
        at=AT,
        caption=lambda w: describe(PLAN, "tuning", w.key).caption,
        published=lambda w: describe(PLAN, "tuning", w.key).published,
    shell:
        "exec python -m minbert tuning {wildcards.key} {params.at} 2> {log:q}"


rule scores:
    input:
        lambda w: unaged("scores", w.key),
    output:
        STORE / "scores" / "{key}" / "scores.parquet",
    log:
        LOGS / "scores" / "{key}.log",
    priority: SHOWN
    conda:
        "../../envs/minbert.yaml"
    resources:
        mem_mb=mem_mb("scores"),
        runtime=minutes("scores"),
    params:
        at=AT,
    shell:
        "exec python -m minbert scores {wildcards.key} {params.at} 2> {log:q}"


rule table:
    input:
        lambda w: unaged("table", w.key),
    output:
        shown(STORE / "table" / "{key}" / "table.csv", "table", "csv"),
        shown(STORE / "table" / "{key}" / "table.md", "table", "md"),
        STORE / "table" / "{key}" / "table.tex",
    log:
        LOGS / "table" / "{key}.log",
    priority: SHOWN
    conda:
        "../../envs/minbert.yaml"
    resources:
        mem_mb=mem_mb("table"),
        runtime=minutes("table"),
        turn=1,
    params:
        at=AT,
        caption=lambda w: describe(PLAN, "table", w.key).caption,
        published=lambda w: describe(PLAN, "table", w.key).published,
    shell:
        "exec python -m minbert table {wildcards.key} {params.at} 2> {log:q}"


rule index:
    input:
        lambda w: unaged("index", w.key),
    output:
        shown(STORE / "index" / "{key}" / "index.csv", "index", "csv"),
        shown(STORE / "index" / "{key}" / "index.md", "index", "md"),
    log:
        LOGS / "index" / "{key}.log",
    priority: SHOWN
    conda:
        "../../envs/minbert.yaml"
    resources:
        mem_mb=mem_mb("index"),
        runtime=minutes("index"),
    params:
        at=AT,
        caption=lambda w: describe(PLAN, "index", w.key).caption,
        published=lambda w: describe(PLAN, "index", w.key).published,
    shell:
        "exec python -m minbert index {wildcards.key} {params.at} 2> {log:q}"


rule claims:
    input:
        lambda w: unaged("claims", w.key),
    output:
        shown(STORE / "claims" / "{key}" / "claims.csv", "claims", "csv"),
        shown(STORE / "claims" / "{key}" / "claims.md", "claims", "md"),
        STORE / "claims" / "{key}" / "claims.tex",
    log:
        LOGS / "claims" / "{key}.log",
    priority: SHOWN
    conda:
        "../../envs/minbert.yaml"
    resources:
        mem_mb=mem_mb("claims"),
        runtime=minutes("claims"),
    params:
        at=AT,
        caption=lambda w: describe(PLAN, "claims", w.key).caption,
        published=lambda w: describe(PLAN, "claims", w.key).published,
    shell:
        "exec python -m minbert claims {wildcards.key} {params.at} 2> {log:q}"


rule figure:
    input:
        lambda w: unaged("figure", w.key),
    output:
        shown(STORE / "figure" / "{key}" / "figure.pdf", "figure", "pdf"),
        shown(STORE / "figure" / "{key}" / "figure.png", "figure", "png"),
    log:
        LOGS / "figure" / "{key}.log",
    priority: SHOWN
    conda:
        "../../envs/minbert.yaml"
    resources:
        mem_mb=mem_mb("figure"),
        runtime=minutes("figure"),
        turn=1,
    params:
        at=AT,
        caption=lambda w: describe(PLAN, "figure", w.key).caption,
        published=lambda w: describe(PLAN, "figure", w.key).published,
    shell:
        "exec python -m minbert figure {wildcards.key} {params.at} 2> {log:q}"


# The mark is named by the hash of everything published, and by a new number whenever the plain names
# do not hold what the configuration asks for.
rule publish:
    input:
        [ancient(path) for path in PLAN.copied],
    output:
        PLAN.mark,
    log:
        LOGS / "publish.log",
    priority: SHOWN
    conda:
        "../../envs/minbert.yaml"
    params:
        at=AT,
    shell:
        "exec python -m minbert publish {params.at} --mark {output:q} 2> {log:q}"


# One file by its plain name: snakemake --cores 8 results/figures/hybrid-bert/ranking.pdf
rule plain:
    input:
        lambda w: keyed(w.name),
    output:
        PLAN.names / "{name}",
    log:
        LOGS / "plain" / "{name}.log",
    wildcard_constraints:
        name=r"(tables|figures)/.+|report\.html",
    conda:
        "../../envs/minbert.yaml"
    params:
        at=AT,
    shell:
        "exec python -m minbert publish {params.at} --name {wildcards.name:q} 2> {log:q}"
