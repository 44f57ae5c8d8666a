# Training: one job for each distinct stage and seed.
#
# in:  store/tokens, store/backbone, the weights of the stage it starts from;
#      for a frozen encoder store/features/KEY/features.safetensors
# out: store/train/KEY/seedN/{model.safetensors,history.parquet,predictions.parquet,run.json}


# Weights that no later stage needs may be deleted; measurements never are.
kept = (lambda path: path) if PLAN.config.keep_weights else temp


rule features:
    input:
        lambda w: unaged("features", w.key),
    output:
        STORE / "features" / "{key}" / "features.safetensors",
    log:
        LOGS / "features" / "{key}.log",
    priority: urgency("features")
    conda:
        "../../envs/minbert.yaml"
    threads: threads_each()
    resources:
        mem_mb=mem_mb("features"),
        runtime=minutes("features"),
        gpu=gpus("features"),
    params:
        at=AT,
        memory=lambda w: demand().device_mb("features", w.key),
    shell:
        "exec python -m minbert features {wildcards.key} {params.at} --threads {threads}"
        " --memory {params.memory} 2> {log:q}"


rule train:
    input:
        lambda w: unaged("train", w.key, int(w.seed)),
    output:
        kept(STORE / "train" / "{key}" / "seed{seed}" / "model.safetensors"),
        STORE / "train" / "{key}" / "seed{seed}" / "history.parquet",
        STORE / "train" / "{key}" / "seed{seed}" / "predictions.parquet",
        STORE / "train" / "{key}" / "seed{seed}" / "run.json",
    log:
        LOGS / "train" / "{key}-seed{seed}.log",
    priority: urgency("train")
    conda:
        "../../envs/minbert.yaml"
    threads: threads_each()
    resources:
        mem_mb=mem_mb("train"),
        runtime=minutes("train"),
        gpu=gpus("train"),
    params:
        at=AT,
        memory=lambda w: demand().device_mb("train", w.key),
    shell:
        "exec python -m minbert train {wildcards.key} --seed {wildcards.seed} {params.at}"
        " --threads {threads} --memory {params.memory} 2> {log:q}"
