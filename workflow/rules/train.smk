# Training: one job for each distinct stage and seed.
#
# in:  store/tokens, store/backbone, the weights of the stage it starts from;
#      for a frozen encoder store/features/KEY/features.safetensors
# out: store/train/KEY/seedN/{model.safetensors,history.parquet,predictions.parquet,run.json}

THREADS = job_threads(PLAN, workflow.resource_settings.cores)

# Weights that no later stage needs may be let go; what is measured never is.
kept = (lambda path: path) if PLAN.config.keep_weights else temp


rule features:
    input:
        unpack(lambda w: unaged(PLAN.inputs("features", w.key))),
    output:
        STORE / "features" / "{key}" / "features.safetensors",
    log:
        LOGS / "features" / "{key}.log",
    conda:
        "../../envs/minbert.yaml"
    threads: THREADS
    params:
        root=lambda w: str(ROOT),
    shell:
        "exec python -m minbert features {wildcards.key} --results {params.root:q} --threads {threads} 2> {log:q}"


rule train:
    input:
        unpack(lambda w: unaged(PLAN.inputs("train", w.key, int(w.seed)))),
    output:
        kept(STORE / "train" / "{key}" / "seed{seed}" / "model.safetensors"),
        STORE / "train" / "{key}" / "seed{seed}" / "history.parquet",
        STORE / "train" / "{key}" / "seed{seed}" / "predictions.parquet",
        STORE / "train" / "{key}" / "seed{seed}" / "run.json",
    log:
        LOGS / "train" / "{key}-seed{seed}.log",
    conda:
        "../../envs/minbert.yaml"
    threads: lambda w: THREADS * PLAN.processes(w.key)
    params:
        root=lambda w: str(ROOT),
    shell:
        "exec python -m minbert train {wildcards.key} --seed {wildcards.seed} --results {params.root:q}"
        " --threads {threads} 2> {log:q}"
