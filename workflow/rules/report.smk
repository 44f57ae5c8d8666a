# The report: everything published, on one page. Snakemake's own (`snakemake --report FILE`) takes
# figures and tables from the rules that make them, with the captions in workflow/report.
#
# in:  store/{table,claims,index,figure}/KEY/..., store/train/KEY/seedN/run.json, store/data/KEY/report.json
# out: store/report/KEY/report.html, published as report.html


rule report:
    input:
        lambda w: unaged("report", w.key),
    output:
        shown(STORE / "report" / "{key}" / "report.html", "report", "html"),
    log:
        LOGS / "report" / "{key}.log",
    priority: SHOWN
    conda:
        "../../envs/minbert.yaml"
    threads: 2  # pictures are reduced in parallel, and nothing else is left to run
    resources:
        mem_mb=mem_mb("report"),
        runtime=minutes("report"),
    params:
        at=AT,
        caption=lambda w: describe(PLAN, "report", w.key).caption,
        published=lambda w: describe(PLAN, "report", w.key).published,
    shell:
        "exec python -m minbert report {wildcards.key} {params.at} --threads {threads}"
        " 2> {log:q}"
