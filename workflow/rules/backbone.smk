# The backbone: pretrained weights from a folder, the hub, or the built-in corpus.
#
# in:  a Hugging Face folder or hub name, or nothing
# out: store/vocabulary/KEY/tokenizer.json,
#      store/backbone/KEY/{model.safetensors,config.json,tokenizer.json}


rule vocabulary:
    output:
        STORE / "vocabulary" / "{key}" / "tokenizer.json",
    log:
        LOGS / "vocabulary" / "{key}.log",
    priority: urgency("vocabulary")
    conda:
        "../../envs/minbert.yaml"
    resources:
        mem_mb=mem_mb("vocabulary"),
        runtime=minutes("vocabulary"),
    params:
        at=AT,
    shell:
        "exec python -m minbert vocabulary {wildcards.key} {params.at} 2> {log:q}"


rule backbone:
    input:
        lambda w: unaged("backbone", w.key),
    output:
        STORE / "backbone" / "{key}" / "model.safetensors",
        STORE / "backbone" / "{key}" / "config.json",
        STORE / "backbone" / "{key}" / "tokenizer.json",
    log:
        LOGS / "backbone" / "{key}.log",
    priority: urgency("backbone")
    conda:
        "../../envs/minbert.yaml"
    # All cores; None if nothing runs, as with --unlock.
    threads: shared_cores() or 1
    resources:
        mem_mb=mem_mb("backbone"),
        runtime=minutes("backbone"),
        gpu=gpus("backbone"),
    params:
        at=AT,
        memory=lambda w: demand().device_mb("backbone", w.key),
    shell:
        "exec python -m minbert backbone {wildcards.key} {params.at} --threads {threads}"
        " --memory {params.memory} 2> {log:q}"
