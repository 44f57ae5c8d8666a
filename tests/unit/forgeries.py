"""What may be wrong with a bundle: its files changed in many ways, and what is said of each."""

from __future__ import annotations

import hashlib
import io
import json
import stat
import zipfile
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from trained_root import run_folder

from minbert.plan.plan import Plan
from minbert.publish.archive import MANIFEST
from minbert.spec.task import TASKS
from minbert.store.node import key_of

Files = dict[str, bytes]


class Forgery:
    """A bundle's files, to change; `written` lists them anew unless `listed` is set to False."""

    def __init__(self, path: Path, plan: Plan) -> None:
        with zipfile.ZipFile(path) as archive:
            self.files = {name: archive.read(name) for name in archive.namelist()}
        self.about = json.loads(self.files.pop(MANIFEST))
        self.listed = True
        self.plan = plan
        self.run = str(run_folder(plan, "three").relative_to(plan.root / "store"))
        self.extra: list[tuple[zipfile.ZipInfo | str, bytes]] = []

    def add(self, name: str | zipfile.ZipInfo, content: bytes = b"{}") -> None:
        """Add an entry to the zip and to the list."""
        self.extra.append((name, content))

    def json(self, name: str) -> Any:
        return json.loads(self.files[name])

    def table(self, file: str) -> pa.Table:
        return pq.read_table(io.BytesIO(self.files[f"{self.run}/{file}"]))

    def put(self, name: str, value: Any) -> None:
        """Replace a file by JSON or a table."""
        if isinstance(value, pa.Table):
            sink = io.BytesIO()
            pq.write_table(value, sink)
            self.files[name] = sink.getvalue()
        else:
            self.files[name] = json.dumps(value).encode()

    def written(self, path: Path) -> None:
        every = [*self.files.items(), *self.extra]
        if self.listed:
            self.about["files"] = {
                (name.filename if isinstance(name, zipfile.ZipInfo) else name): {
                    "bytes": len(content),
                    "sha256": hashlib.sha256(content).hexdigest(),
                }
                for name, content in every
            }
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, content in every:
                archive.writestr(name, content)
            archive.writestr(MANIFEST, json.dumps(self.about))


Change = Callable[[Forgery], None]


def named(name: str) -> Change:
    return lambda bundle: bundle.add(name)


def link(bundle: Forgery) -> None:
    info = zipfile.ZipInfo(f"{bundle.run}/adopted.json")
    info.create_system, info.external_attr = 3, (stat.S_IFLNK | 0o777) << 16
    bundle.add(info, b"/etc/passwd")


def twice(bundle: Forgery) -> None:
    bundle.add("README.md", b"another")


def unlisted(bundle: Forgery) -> None:
    bundle.listed = False
    bundle.add(f"{bundle.run}/adopted.json", b"[]")


def gone(bundle: Forgery) -> None:
    bundle.listed = False
    del bundle.files[f"{bundle.run}/history.parquet"]


def changed(bundle: Forgery) -> None:
    bundle.listed = False
    name = f"{bundle.run}/run.json"
    bundle.files[name] = bundle.files[name].replace(b'"seed": 0', b'"seed": 1')


def other_size(bundle: Forgery) -> None:
    bundle.listed = False
    bundle.files["README.md"] += b" and more"


def huge(bundle: Forgery) -> None:
    bundle.files["README.md"] = bytes((64 << 20) + 1)


def other_version(bundle: Forgery) -> None:
    bundle.about["version"] = 2


def no_list(bundle: Forgery) -> None:
    bundle.about = ["nothing"]  # type: ignore[assignment]
    bundle.listed = False


def described(bundle: Forgery) -> str:
    return f"spec/train-{bundle.run.split('/')[1]}.json"


def edited_settings(bundle: Forgery) -> None:
    page = bundle.json(described(bundle))
    page["spec"]["stage"]["epochs"] = 99
    bundle.put(described(bundle), page)


def foreign_maker(bundle: Forgery) -> None:
    page = bundle.json(described(bundle))
    page["maker"] = "shutil"
    bundle.put(described(bundle), page)


def download(bundle: Forgery) -> None:
    page = {"kind": "fetch", "spec": {"name": "x"}, "code": {}, "needs": {}}
    bundle.put(f"spec/fetch-{key_of(page)}.json", page | {"key": key_of(page)})


def damaged_description(bundle: Forgery) -> None:
    page = bundle.json(described(bundle))
    del page["needs"]
    bundle.put(described(bundle), page)


def undescribed_need(bundle: Forgery) -> None:
    for name in [name for name in bundle.files if name.startswith("spec/tokens-")]:
        del bundle.files[name]


def undescribed_run(bundle: Forgery) -> None:
    for file in ("run.json", "history.parquet", "predictions.parquet"):
        name = f"train/{'a' * 16}/seed0/{file}"
        bundle.files[name] = bundle.files[f"{bundle.run}/{file}"]


def half_a_run(bundle: Forgery) -> None:
    del bundle.files[f"{bundle.run}/predictions.parquet"]


def another_rows_run(bundle: Forgery) -> None:
    """A run of another row under this one's key."""
    other = run_folder(bundle.plan, "staged", "again").relative_to(bundle.plan.root / "store")
    for file in ("run.json", "history.parquet", "predictions.parquet"):
        bundle.files[f"{bundle.run}/{file}"] = bundle.files[f"{other}/{file}"]


def another_seed(bundle: Forgery) -> None:
    for file in ("run.json", "history.parquet", "predictions.parquet"):
        name = f"{bundle.run}/{file}"
        bundle.files[name.replace("seed0", "seed1")] = bundle.files[name]


def edited_predictions(bundle: Forgery) -> None:
    """Every dev prediction of SST is right, and the list of checksums is made anew."""
    table = bundle.table("predictions.parquet")
    of_task = pc.and_(pc.equal(table["task"], "sst"), pc.equal(table["split"], "dev"))
    better = pc.if_else(of_task, table["label"], table["prediction"])
    bundle.put(f"{bundle.run}/predictions.parquet", table.set_column(3, "prediction", better))


def edited_history(bundle: Forgery) -> None:
    table = bundle.table("history.parquet")
    edited = pc.and_(pc.equal(table["metric"], "accuracy"), pc.equal(table["split"], "dev"))
    better = pc.if_else(edited, 0.999, table["value"])
    bundle.put(f"{bundle.run}/history.parquet", table.set_column(5, "value", better))


def scores_away(bundle: Forgery) -> None:
    table = bundle.table("history.parquet")
    bundle.put(f"{bundle.run}/history.parquet", table.filter(pc.not_equal(table["split"], "dev")))


def repeated_examples(bundle: Forgery) -> None:
    table = bundle.table("predictions.parquet")
    bundle.put(f"{bundle.run}/predictions.parquet", pa.concat_tables([table, table.slice(0, 1)]))


def foreign_task(bundle: Forgery) -> None:
    table = bundle.table("predictions.parquet")
    tasks = pa.array(["lmrd"] * len(table))
    bundle.put(f"{bundle.run}/predictions.parquet", table.set_column(1, "task", tasks))


def other_columns(bundle: Forgery) -> None:
    table = bundle.table("history.parquet").drop_columns(["time"])
    bundle.put(f"{bundle.run}/history.parquet", table)


def no_parquet(bundle: Forgery) -> None:
    bundle.files[f"{bundle.run}/history.parquet"] = b"PAR1 and nothing else"


def many_values(bundle: Forgery) -> None:
    """A table of three million equal rows, in a few kilobytes."""
    table = bundle.table("history.parquet").take(np.zeros(3_000_000, np.int32))
    bundle.put(f"{bundle.run}/history.parquet", table)


def long_text(bundle: Forgery) -> None:
    """One text of a megabyte, which each row repeats."""
    table = bundle.table("history.parquet")
    texts = pa.array(["x" * 1_000_000] * len(table))
    bundle.put(f"{bundle.run}/history.parquet", table.set_column(3, "task", texts))


def damaged_record(bundle: Forgery) -> None:
    name = next(name for name in bundle.files if name.endswith("/report.json"))
    bundle.put(name, {"rows": {"dev": -1}})


def wide_columns(bundle: Forgery) -> None:
    """Bytes in place of text: a megabyte that each of 2,000 rows repeats, in a few kilobytes."""
    column = pa.DictionaryArray.from_arrays(np.zeros(2000, np.int32), [b"x" * 1_000_000])
    bundle.put(f"{bundle.run}/history.parquet", pa.table({"task": column.cast(pa.binary())}))


def smuggled_texts(bundle: Forgery) -> None:
    table = bundle.table("predictions.parquet")
    texts = pa.array(["a private text"] * len(table))
    bundle.put(f"{bundle.run}/predictions.parquet", table.append_column("text", texts))


def broken_text(bundle: Forgery) -> None:
    table = bundle.table("history.parquet")
    size = len(table)
    starts = pa.py_buffer(np.arange(0, size + 1, dtype=np.int32))
    broken = pa.StringArray.from_buffers(size, starts, pa.py_buffer(b"\xff" * size))
    bundle.put(f"{bundle.run}/history.parquet", table.set_column(3, "task", broken))


def damaged_adoption(bundle: Forgery) -> None:
    bundle.files[f"{bundle.run}/adopted.json"] = b"[1, 2]"


def damaged_shapes(bundle: Forgery) -> None:
    (name,) = [name for name in bundle.files if name.startswith("backbone/")]
    bundle.put(name, {"hidden": "many"})


def odd_device(bundle: Forgery) -> None:
    record = bundle.json(f"{bundle.run}/run.json")
    record["environment"]["device"] = ["cpu"]
    bundle.put(f"{bundle.run}/run.json", record)


def unwritable_text(bundle: Forgery) -> None:
    record = bundle.json(f"{bundle.run}/run.json")
    record["environment"]["python"] = "\udcff"
    bundle.put(f"{bundle.run}/run.json", record)


def rekeyed(bundle: Forgery, edit: Callable[[Any], None]) -> None:
    """Edit the settings of a run that no other starts from, and put it under its new key."""
    bundle.run = str(run_folder(bundle.plan, "frozen").relative_to(bundle.plan.root / "store"))
    page = bundle.json(described(bundle))
    edit(page["spec"])
    old, page["key"] = page["key"], key_of(page)
    del bundle.files[described(bundle)]
    for name in [name for name in bundle.files if name.startswith(bundle.run)]:
        bundle.files[name.replace(old, page["key"])] = bundle.files.pop(name)
    bundle.run = bundle.run.replace(old, page["key"])
    bundle.put(described(bundle), page)
    record = bundle.json(f"{bundle.run}/run.json")
    bundle.put(f"{bundle.run}/run.json", record | {"spec": page["spec"]["stage"]})


def unknown_task(bundle: Forgery) -> None:
    rekeyed(bundle, lambda spec: spec["stage"]["tasks"].update(zzz=spec["stage"]["tasks"]["sst"]))


def unknown_metric(bundle: Forgery) -> None:
    bundle.about["tasks"] = [asdict(TASKS["sst"]) | {"name": "own", "metric": "luck"}]
    rekeyed(bundle, lambda spec: spec["stage"]["tasks"].update(own=spec["stage"]["tasks"]["sst"]))
    table = bundle.table("history.parquet")
    of_own = {"split": "dev", "task": "own", "metric": "luck", "value": 1.0}
    row = table.slice(len(table) - 1).to_pylist()[0] | of_own
    added = pa.concat_tables([table, pa.Table.from_pylist([row], schema=table.schema)])
    bundle.put(f"{bundle.run}/history.parquet", added)


def unwritable_settings(bundle: Forgery) -> None:
    rekeyed(bundle, lambda spec: spec.update(more="\udcff"))


def large_descriptions(bundle: Forgery) -> None:
    """Each of them is small enough, and together they would fill the memory."""
    page = bundle.json(described(bundle)) | {"more": "x" * 30_000_000}
    for number in range(3):
        bundle.put(f"spec/train-{number:016x}.json", page)


def no_weights(bundle: Forgery) -> None:
    bundle.files[f"{bundle.run}/model.safetensors"] = b"\x80\x04cposix\nsystem\n"


def odd_tasks(bundle: Forgery) -> None:
    bundle.about["tasks"] = [{"name": "x", "names": 3}]


def hidden_task(bundle: Forgery) -> None:
    """A task of its own that would be scored instead of the built-in one."""
    bundle.about["tasks"] = [asdict(TASKS["sst"])]


def odd_sources(bundle: Forgery) -> None:
    bundle.about["sources"] = {f"data-{'0' * 16}": ["\ud800"]}


HOSTILE: dict[str, tuple[Change, str]] = {
    "a path upwards": (named("train/../../../evil.json"), r"evil\.json: is not part of a bundle"),
    "an absolute path": (named("/etc/cron.d/evil"), "evil: is not part of a bundle"),
    "a path of Windows": (named("C:\\evil.json"), r"evil\.json: is not part of a bundle"),
    "a name with an escape": (named("a\x1b[2Jb"), r"a\\x1b\[2Jb: is not part of a bundle"),
    "a folder": (named("train/"), "train/: is not part of a bundle"),
    "a link": (link, r"adopted\.json: is a link or another special file"),
    "a file twice": (twice, r"README\.md: is in the zip twice"),
    "an unknown kind": (named(f"spec/evil-{'0' * 16}.json"), "describes the unknown kind 'evil'"),
    "texts": (
        named(f"data/{'0' * 16}/examples.parquet"),
        "not part of a bundle, for the kind",
    ),
    "tables made elsewhere": (
        named(f"table/{'0' * 16}/table.csv"),
        "is a file of the kind 'table'",
    ),
    "a run without seed": (named(f"train/{'0' * 16}/run.json"), "is outside a seed's folder"),
    "code": (named("src/minbert/evil.py"), r"evil\.py: is not part of a bundle"),
    "a file that is not listed": (unlisted, r"adopted\.json: is not listed in bundle\.json"),
    "a listed file is gone": (gone, r"history\.parquet: is listed in bundle\.json, but missing"),
    "an edited record": (changed, r"run\.json: was changed: its SHA-256 is not the one"),
    "another size": (other_size, r"README\.md: has [\d,]+ bytes by the zip, [\d,]+ by bundle"),
    "a zip bomb": (huge, r"README\.md: has 67,108,865 bytes, expected 64 MiB at most"),
    "another version": (
        other_version,
        "is a bundle of version 2, and this minbert reads version 1",
    ),
    "a list that is none": (no_list, r"bundle\.json: is not a list of files"),
    "tasks that are none": (odd_tasks, "has tasks of its own that cannot be read"),
    "a source with half a character": (odd_sources, r"bundle\.json: is not a list of files"),
    "a task like a built-in one": (hidden_task, "defines the task 'sst', which is built in"),
    "edited settings": (edited_settings, "does not match its key: its content has"),
    "a foreign maker": (foreign_maker, "is to be made by modules that are not in its key"),
    "a download": (download, "is to be made by modules that are not in its key"),
    "a damaged description": (
        damaged_description,
        r"spec/train-.* is damaged \(has no needs",
    ),
    "a need that is not described": (undescribed_need, r"needs tokens-\w{16}, which is not descri"),
    "a run that is not described": (undescribed_run, "aaaa/seed0: has no description: its key is"),
    "half a run": (half_a_run, "seed0: lacks files of a finished result"),
    "a run under another key": (another_rows_run, r"run\.json: has settings that are not those"),
    "a run under another seed": (another_seed, r"seed1/run\.json: is of seed 0"),
    "edited predictions": (edited_predictions, r"scores 1\.0+ on dev of 'sst' \(prediction\), and"),
    "an edited history": (edited_history, r"and the history has 0\.999000: one of them was edited"),
    "a history without scores": (scores_away, "has no dev score of 'para' in the best epoch"),
    "an example twice": (repeated_examples, "predicts an example twice"),
    "another task": (foreign_task, "predicts 'lmrd', a task that the stage lacks"),
    "other columns": (other_columns, r"history\.parquet: has the columns step int64, epoch"),
    "no table": (no_parquet, r"history\.parquet: is damaged or not a parquet file"),
    "a table bomb": (many_values, r"history\.parquet: has 21,000,000 values, expected 20,000,000"),
    "a long text": (long_text, "has a text of 1,000,000 characters, expected ids"),
    "columns of bytes": (wide_columns, r"history\.parquet: has the columns task binary"),
    "texts beside predictions": (smuggled_texts, "has the columns .*last double, text string"),
    "text that is not UTF-8": (broken_text, r"history\.parquet: is damaged .*Invalid UTF8"),
    "a damaged record of an adoption": (damaged_adoption, r"adopted\.json: is damaged: a field"),
    "damaged shapes": (damaged_shapes, r"config\.json: is damaged: a field is missing or wrong"),
    "an odd device": (odd_device, r"run\.json: is damaged: a field is missing or wrong"),
    "text that cannot be written": (unwritable_text, r"run\.json: is damaged: a field is missing"),
    "settings that cannot be written": (unwritable_settings, "is damaged .*surrogates not allow"),
    "an unknown task": (unknown_task, "has the task 'zzz', which is neither built in nor one of"),
    "an unknown metric": (unknown_metric, "cannot be scored on dev of 'own'.*: 'luck'"),
    "large descriptions": (large_descriptions, "has 90,[0-9,]+ bytes of descriptions, expected 64"),
    "a damaged report": (damaged_record, r"report\.json: is damaged: a field is missing or wrong"),
    "weights that are a pickle": (no_weights, r"model\.safetensors: holds no weights"),
}
