"""A paper's best model as MLflow keeps it: its files, and the flavour that says what loads them.

`mlflow.pyfunc.load_model` gives them to `minbert.explore.pyfunc`. Nothing here imports mlflow.
"""

from pathlib import Path
from platform import python_version
from typing import Any

from minbert.evaluate.winner import Winner
from minbert.spec.architecture import WEIGHTS
from minbert.store.job import node_folder
from minbert.store.plans import describe_job, read_description
from minbert.store.record import precision_of, sound

LOADER = "minbert.explore.pyfunc"
_BACKBONE = ("config.json", "tokenizer.json")


def model_files(root: Path, best: Winner) -> dict[str, Path]:
    """Return the files of the best seed's model; nothing if any of its weights were not kept.

    They are {name in the run: path}. The backbone's weights are among them if a stage froze it.
    """
    found = {}
    for task, key in best.keys.items():
        folder = node_folder(root, "train", key, best.seed)
        if not (folder / WEIGHTS).exists():
            return {}
        found[f"model/{_name(best, task)}.safetensors"] = folder / WEIGHTS
        found[f"model/{_name(best, task)}.json"] = folder / "run.json"
        described = read_description(root, "train", key)
        need = described["needs"]["backbone.config.json"]
        backbone = node_folder(root, need["kind"], need["key"])
        frozen = described["spec"]["stage"]["trainable"] != "all"
        for name in (*_BACKBONE, *([WEIGHTS] if frozen else [])):
            found[f"model/backbone/{name}"] = backbone / name
    return found


def mlmodel(root: Path, best: Winner) -> dict[str, Any]:
    """Return the content of the file `MLmodel`, whose `config` is all that the loader needs."""
    tasks, own = {}, []
    for task, key in best.keys.items():
        job = describe_job(root, "train", key)
        record = sound(node_folder(root, "train", key, best.seed) / "run.json")
        own = job["tasks"]
        tasks[task] = {
            "weights": f"{_name(best, task)}.safetensors",
            "stage": job["spec"]["stage"],
            "precision": precision_of(record) if record else "fp32",
        }
    config = {"variant": best.variant, "tasks": tasks, "own_tasks": own}
    flavour = {"loader_module": LOADER, "python_version": python_version(), "config": config}
    return {"flavors": {"python_function": flavour}}


def _name(best: Winner, task: str) -> str:
    return "model" if len(set(best.keys.values())) == 1 else task
