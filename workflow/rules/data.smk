# Raw files, example tables and tokens.
#
# in:  URLs or folders from config.yaml, or nothing (the built-in corpus)
# out: store/fetch/KEY/NAME, store/data/KEY/examples.parquet (with rejected.csv and report.json),
#      store/labels/KEY/labels.parquet (with unjoined.csv and joined.json), for scores on test alone,
#      store/rows/KEY/rows.parquet, store/tokens/KEY/tokens.parquet


rule fetch:
    output:
        STORE / "fetch" / "{key}" / "{name}",
    log:
        LOGS / "fetch" / "{key}-{name}.log",
    priority: urgency("fetch")
    retries: 2
    conda:
        "../../envs/minbert.yaml"
    params:
        at=AT,
    shell:
        "exec python -m minbert fetch {wildcards.key} {params.at} 2> {log:q}"


rule data:
    input:
        lambda w: unaged("data", w.key),
    output:
        STORE / "data" / "{key}" / "examples.parquet",
        STORE / "data" / "{key}" / "rejected.csv",
        STORE / "data" / "{key}" / "report.json",
    log:
        LOGS / "data" / "{key}.log",
    priority: urgency("data")
    conda:
        "../../envs/minbert.yaml"
    resources:
        mem_mb=mem_mb("data"),
        runtime=minutes("data"),
        turn=1,
    params:
        at=AT,
    shell:
        "exec python -m minbert data {wildcards.key} {params.at} 2> {log:q}"


rule labels:
    input:
        lambda w: unaged("labels", w.key),
    output:
        STORE / "labels" / "{key}" / "labels.parquet",
        STORE / "labels" / "{key}" / "unjoined.csv",
        STORE / "labels" / "{key}" / "joined.json",
    log:
        LOGS / "labels" / "{key}.log",
    conda:
        "../../envs/minbert.yaml"
    resources:
        mem_mb=mem_mb("labels"),
        runtime=minutes("labels"),
        turn=1,
    params:
        at=AT,
    shell:
        "exec python -m minbert labels {wildcards.key} {params.at} 2> {log:q}"


# Figures read these: as soon as they can be made, before more training.
rule rows:
    input:
        lambda w: unaged("rows", w.key),
    output:
        STORE / "rows" / "{key}" / "rows.parquet",
    log:
        LOGS / "rows" / "{key}.log",
    priority: SHOWN
    conda:
        "../../envs/minbert.yaml"
    resources:
        mem_mb=mem_mb("rows"),
        runtime=minutes("rows"),
        turn=1,
    params:
        at=AT,
    shell:
        "exec python -m minbert rows {wildcards.key} {params.at} 2> {log:q}"


rule tokens:
    input:
        lambda w: unaged("tokens", w.key),
    output:
        STORE / "tokens" / "{key}" / "tokens.parquet",
    log:
        LOGS / "tokens" / "{key}.log",
    priority: urgency("tokens")
    conda:
        "../../envs/minbert.yaml"
    resources:
        mem_mb=mem_mb("tokens"),
        runtime=minutes("tokens"),
        turn=1,
    params:
        at=AT,
    shell:
        "exec python -m minbert tokens {wildcards.key} {params.at} 2> {log:q}"
