# Raw files, example tables and tokens.
#
# in:  URLs or folders from config.yaml, or the built-in corpus (workflow/builtin)
# out: store/fetch/KEY/NAME, store/data/KEY/examples.parquet (with rejected.csv and report.json),
#      store/labels/KEY/labels.parquet (with labels.json), only for scores on test,
#      store/rows/KEY/rows.parquet, store/tokens/KEY/tokens.parquet


use rule step as fetch with:
    output:
        STORE / "fetch" / "{key}" / "{name}",
    log:
        LOGS / "fetch" / "{key}-{name}.log",


use rule step as data with:
    output:
        STORE / "data" / "{key}" / "examples.parquet",
        STORE / "data" / "{key}" / "rejected.csv",
        STORE / "data" / "{key}" / "report.json",
    log:
        LOGS / "data" / "{key}.log",


use rule step as labels with:
    output:
        STORE / "labels" / "{key}" / "labels.parquet",
        STORE / "labels" / "{key}" / "labels.json",
    log:
        LOGS / "labels" / "{key}.log",


use rule step as rows with:
    output:
        STORE / "rows" / "{key}" / "rows.parquet",
    log:
        LOGS / "rows" / "{key}.log",


use rule step as tokens with:
    output:
        STORE / "tokens" / "{key}" / "tokens.parquet",
    log:
        LOGS / "tokens" / "{key}.log",
