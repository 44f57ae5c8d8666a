"""Where a configuration has the files of a task, and what is said if they are not there."""

from collections.abc import Collection
from pathlib import Path

from minbert.base.errors import UserError, no_file
from minbert.data.tables import FORMS
from minbert.spec.config import Config
from minbert.spec.model import URLS
from minbert.spec.protocol import SPLITS
from minbert.spec.task import BUILT_IN, TaskEntry

Place = tuple[str, str]
"""A file's path or URL, and its checksum: `git:9cb7...`, or `git:` if it may have any."""
CORPUS = Path("workflow/builtin")
"""Where the files of the built-in corpus lie, below the folder of the Snakefile."""


def located(task: str, config: Config, base: Path) -> dict[str, Place]:
    """Return {split: place} of a task's files, or {"archive": place}; `base` is the Snakefile's."""
    if entry := config.tasks.get(task):
        if folder := entry.files.get("folder"):
            return _in_folder(task, entry, Path(str(folder.path)), config)
        files = entry.files.items()
        return {split: (str(f.url or f.path), f.checksum or "sha256:") for split, f in files}
    built_in, source = BUILT_IN[task], config.course.rstrip("/")
    if config.data == "builtin":
        source = str(base / CORPUS)
    elif built_in.archive:
        known = str(built_in.archive.checksum)
        return {"archive": (config.lmrd, known if config.lmrd.startswith(URLS) else "md5:")}
    files, is_url = built_in.files.items(), source.startswith(URLS)
    return {
        split: (f"{source}/{f.path}", str(f.checksum) if is_url else "git:") for split, f in files
    }


def names_in(folder: Path, config: Config) -> list[str]:
    """Return the names of a folder's files; of one that is not there, those of the `checksums`."""
    if folder.is_dir():
        return sorted(path.name for path in folder.iterdir())
    return [path.name for path in map(Path, config.checksums) if path.parent == folder]


def _in_folder(task: str, entry: TaskEntry, folder: Path, config: Config) -> dict[str, Place]:
    """Return a folder's files `train.tsv`, `dev.jsonl` etc.; what is no folder is train's file."""
    names = names_in(folder, config)
    if not names and not folder.is_dir() and "dev" in entry.derived_splits:
        return {"train": (str(folder), "sha256:")}
    found = [(s, name) for s in SPLITS for form in FORMS if (name := f"{s}.{form}") in names]
    splits = [*(split for split, _ in found), *entry.derived_splits]
    if not {"train", "dev"} <= {*splits} or len({*splits}) < len(splits):
        if not names and not folder.exists():
            kind = "file" if folder.suffix[1:] in FORMS else "folder"
            raise UserError(f"config: tasks.{task}.files: {no_file(folder, kind)}")
        alone = "train alone" if folder.is_file() else "nothing"
        raise UserError(
            f"config: tasks.{task}.files: {folder} has {', '.join(names[:8]) or alone}; expected "
            f"one file of train (train.{', .'.join(FORMS)}), one of dev or in its place 'dev: 0.1' "
            "in the task"
        )
    return {split: (str(folder / name), "sha256:") for split, name in found}


def label_files(config: Config, tasks: Collection[str]) -> dict[str, Path]:
    """Return {task: path} of the files in `labels` that are called by tasks, such as `sst.csv`."""
    folder = Path(str(config.labels))
    names = names_in(folder, config)
    each = [(task, name) for task in tasks for form in FORMS if (name := f"{task}.{form}") in names]
    found = {task: folder / name for task, name in each}
    if len(found) < len(each):
        two = ", ".join(name for _, name in each)
        raise UserError(f"labels: {folder}: two files of one task among {two}; keep one")
    if not found and not folder.exists():
        raise UserError(f"labels: {no_file(folder, 'folder')}")
    if not found:
        raise UserError(
            f"labels: {folder}: there is no file of ids and labels that is called by its task, "
            "such as sst.csv; workflow/labels.py makes them from the files of SST, STS-B and Quora"
        )
    return found
