"""The built-in backbone in the repository, and when it is the one."""

from __future__ import annotations

from pathlib import Path

from pages.backbone import FOLDER, recipe, write_vocabulary

from minbert.base.files import read_json
from minbert.plan.plan import Plan

REPOSITORY = Path(__file__).parents[2]


def test_it_fits_the_recipe_of_today(tmp_path: Path) -> None:
    """If not: `cd tests && python -m pages.backbone`."""
    assert read_json(FOLDER / "recipe.json") == recipe()
    write_vocabulary(tmp_path / "tokenizer.json")
    ours = (tmp_path / "tokenizer.json").read_bytes()
    assert ours == (FOLDER / "tokenizer.json").read_bytes()
    assert sum(path.stat().st_size for path in FOLDER.iterdir()) < 4e6


def test_other_settings_are_pretrained_by_the_workflow(tmp_path: Path) -> None:
    def maker(**changes: object) -> str:
        config = {"grids": "hybrid-bert", "data": "builtin", "backbone": "builtin", **changes}
        plan = Plan.load({**config, "results": str(tmp_path)}, REPOSITORY)
        return plan.sources.backbone.maker

    assert maker() == maker(corpus={"sizes": {"sst": {"train": 9, "dev": 9, "test": 9}}})
    assert maker() == "minbert.train.backbone"
    for other in ({"pretraining": {"steps": 7}}, {"corpus": {"seed": 1}}):
        assert maker(**other) == "minbert.train.pretrain"
