# What each rule inherits. A key says what kind of job it is, and so what it is made from and what it
# asks for; after each failure that is twice the memory and time. Short jobs that a cluster groups take
# turns, as a group has one (profiles/slurm): so it asks for no more than its largest job.
rule step:
    input:
        JOB.inputs,
    log:
        LOGS / "{key}.log",
    # Not worth its time in a process that runs one job.
    priority: 0 if workflow.remote_exec else JOB.priority
    conda:
        "../../envs/minbert.yaml"
    threads: 1
    resources:
        mem_mb=JOB.mem_mb,
        runtime=JOB.runtime,
        gpu=JOB.gpu,
        turn=1,
    params:
        step=JOB.command,
    shell:
        "exec python -m minbert {params.step} --threads {threads} 2> {log:q}"
