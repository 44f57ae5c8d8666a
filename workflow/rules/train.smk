# The backbone, and training: one job for each distinct stage and seed.
#
# in:  a Hugging Face folder or hub name; store/tokens, store/backbone, the weights of
#      the stage it starts from; for a frozen encoder store/features/KEY/features.safetensors
# out: store/backbone/KEY/{model.safetensors,config.json,tokenizer.json},
#      store/train/KEY/seedN/{model.safetensors,history.parquet,predictions.parquet,run.json}

# Weights that no later stage needs may be deleted; measurements never are.
kept = (lambda path: path) if PLAN.config.keep_weights else temp


use rule step as backbone with:
    output:
        STORE / "backbone" / "{key}" / "model.safetensors",
        STORE / "backbone" / "{key}" / "config.json",
        STORE / "backbone" / "{key}" / "tokenizer.json",
    log:
        LOGS / "backbone" / "{key}.log",


use rule step as features with:
    output:
        STORE / "features" / "{key}" / "features.safetensors",
    log:
        LOGS / "features" / "{key}.log",
    threads: JOB.threads


use rule step as train with:
    output:
        kept(STORE / "train" / "{key}" / "seed{seed}" / "model.safetensors"),
        STORE / "train" / "{key}" / "seed{seed}" / "history.parquet",
        STORE / "train" / "{key}" / "seed{seed}" / "predictions.parquet",
        STORE / "train" / "{key}" / "seed{seed}" / "run.json",
    log:
        LOGS / "train" / "{key}-seed{seed}.log",
    threads: JOB.threads
