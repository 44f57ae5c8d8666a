"""Where a configuration has the files of a task, and what is said if they are not there."""

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from minbert.base.errors import UserError, nearest, no_file
from minbert.data.tables import FORMS
from minbert.spec.config import Config
from minbert.spec.entry import TaskEntry
from minbert.spec.model import URLS
from minbert.spec.protocol import COURSE_URL, SPLITS
from minbert.spec.task import BUILT_IN


class Place(NamedTuple):
    """A file's path or URL, and its checksum: `git:9cb7...`, or `git:` if it may have any."""

    at: str
    pin: str

    @property
    def is_url(self) -> bool:
        """Whether it is to be downloaded."""
        return self.at.startswith(URLS)


CORPUS = Path("workflow/builtin")
"""Where the files of the built-in corpus lie, below the folder of the Snakefile."""


def located(task: str, config: Config, base: Path) -> tuple[list[str], dict[str, Place]]:
    """Return the paths that a configuration gives for a task, and {split: place} of its files.

    `base` is the folder of the Snakefile. The file of LMRD is its `archive`. Raises `UserError` for
    a folder without a file for train, or another URL of LMRD than the one whose checksum is known.
    """
    if entry := config.tasks.get(task):
        files = entry.files
        if files.folder is not None:
            return [files.folder], _in_folder(task, entry, Path(files.folder))
        given = {split: file for split in SPLITS if (file := getattr(files, split)) is not None}
        places = {s: Place(str(f.url or f.path), f.checksum or "sha256:") for s, f in given.items()}
        return [place.at for place in places.values() if not place.is_url], places
    built_in = BUILT_IN[task]
    if config.data == "builtin":
        return _course(task, str(base / CORPUS))
    if archive := built_in.archive:
        if not config.lmrd.startswith(URLS):
            return [config.lmrd], {"archive": Place(config.lmrd, "md5:")}
        if config.lmrd != archive.url:
            raise UserError(
                f"lmrd is {config.lmrd!r}: only {archive.url} has a known checksum. Download the "
                "file yourself and give its path"
            )
        return [], {"archive": Place(config.lmrd, str(archive.checksum))}
    return _course(task, config.course)


def _course(task: str, source: str) -> tuple[list[str], dict[str, Place]]:
    """Return the files of a task in the course's form, below a folder or a URL."""
    below = source.rstrip("/")
    pinned = {split: getattr(BUILT_IN[task].files, split) for split in SPLITS}
    if below.startswith(URLS):
        return [], {s: Place(f"{below}/{f.path}", f.checksum) for s, f in pinned.items()}
    return [source], {s: Place(f"{below}/{f.path}", "git:") for s, f in pinned.items()}


def _in_folder(task: str, entry: TaskEntry, folder: Path) -> dict[str, Place]:
    """Return the files of a folder that are called by their splits: `train.tsv`, `dev.jsonl`.

    What is no folder is taken for the file of train.
    """
    if not folder.is_dir():
        return {"train": Place(str(folder), "sha256:")}
    where, found = f"config: tasks.{task}.files", dict[str, Place]()
    for split in SPLITS:
        paths = [path for form in FORMS if (path := folder / f"{split}.{form}").exists()]
        if len(paths) > 1:
            names = " and ".join(path.name for path in paths)
            raise UserError(f"{where}: {folder} has {names}; keep one of them")
        if paths:
            found[split] = Place(str(paths[0]), "sha256:")
    if "train" not in found:
        listed = ", ".join(sorted(path.name for path in folder.iterdir())[:8]) or "nothing"
        raise UserError(
            f"{where}: {folder} has no train file; it has {listed}. Call the files train, dev and "
            f"test, with an ending such as .{FORMS[0]}, or name them"
        )
    if "dev" not in found and entry.dev is None:
        raise UserError(
            f"{where}: {folder} has no dev file to choose the best epoch by; add one, or make the "
            f"split: 'dev: 0.1' in tasks.{task}"
        )
    if both := [split for split in entry.made if split in found]:
        raise UserError(
            f"config: tasks.{task}.{both[0]}: {folder} has a file for {both[0]}; leave out the "
            "share, or the file"
        )
    return found


def check_file(task: str, name: str, path: Path) -> None:
    """Refuse a path without a file, naming the nearest one beside it."""
    if path.is_file():
        return
    if path.is_dir():
        raise UserError(
            f"task '{task}', {name}: {path} is a folder, expected one file; name the file in it. "
            "If the data set is in parts, as Spark writes it, join them first"
        )
    beside, way = [], ""
    wrong = no_file(path) or "there is no such file"
    if path.parent.is_dir():
        beside = [other.name for other in path.parent.iterdir()]
    else:
        wrong = f"there is no folder '{path.parent}'"
    if task in BUILT_IN and name in SPLITS:
        way = f" Copy it there, or download it from {COURSE_URL}/{path.name}"
    raise UserError(
        f"task '{task}', {name}: {path}: {wrong}; check the path.{nearest(path.name, beside)}{way}"
    )


def label_files(folder: Path, tasks: Iterable[str]) -> dict[str, Path]:
    """Return {task: path} of the files in `folder` that are called by tasks, such as `sst.csv`."""
    expected = "expected files of ids and labels called by their tasks, such as sst.csv"
    if not folder.is_dir():
        wrong = "it is no folder" if folder.exists() else "there is no such folder"
        raise UserError(f"labels is '{folder}', and {wrong}; {expected}")
    names = [path.name for path in folder.iterdir()]
    known = [f"{task}.{form}" for task in tasks for form in FORMS]
    found = {name.partition(".")[0]: folder / name for name in known if name in names}
    if not found:
        near = next((near for name in names if (near := nearest(name, known))), "")
        raise UserError(
            f"labels: {folder} has no file of public labels; {expected}.{near} workflow/labels.py "
            "makes them from the files of SST, STS-B and Quora"
        )
    return found
