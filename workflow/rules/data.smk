# Raw files, example tables and tokens.
#
# in:  URLs or folders from config.yaml, or nothing (the built-in corpus)
# out: store/fetch/KEY/NAME, store/data/KEY/examples.parquet (with rejected.csv and report.json),
#      store/labels/KEY/labels.parquet (with unjoined.csv and joined.json), for scores on test alone,
#      store/tokens/KEY/tokens.parquet


rule fetch:
    output:
        STORE / "fetch" / "{key}" / "{name}",
    log:
        LOGS / "fetch" / "{key}-{name}.log",
    retries: 2
    conda:
        "../../envs/minbert.yaml"
    params:
        at=lambda w: AT,
    shell:
        "exec python -m minbert fetch {wildcards.key} {params.at} 2> {log:q}"


rule data:
    input:
        unpack(lambda w: unaged("data", w.key)),
    output:
        STORE / "data" / "{key}" / "examples.parquet",
        STORE / "data" / "{key}" / "rejected.csv",
        STORE / "data" / "{key}" / "report.json",
    log:
        LOGS / "data" / "{key}.log",
    conda:
        "../../envs/minbert.yaml"
    resources:
        mem_mb=mem_mb("data"),
        runtime=minutes("data"),
        turn=1,
    params:
        at=lambda w: AT,
    shell:
        "exec python -m minbert data {wildcards.key} {params.at} 2> {log:q}"


rule labels:
    input:
        unpack(lambda w: unaged("labels", w.key)),
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
        at=lambda w: AT,
    shell:
        "exec python -m minbert labels {wildcards.key} {params.at} 2> {log:q}"


rule tokens:
    input:
        unpack(lambda w: unaged("tokens", w.key)),
    output:
        STORE / "tokens" / "{key}" / "tokens.parquet",
    log:
        LOGS / "tokens" / "{key}.log",
    conda:
        "../../envs/minbert.yaml"
    resources:
        mem_mb=mem_mb("tokens"),
        runtime=minutes("tokens"),
        turn=1,
    params:
        at=lambda w: AT,
    shell:
        "exec python -m minbert tokens {wildcards.key} {params.at} 2> {log:q}"
