"""Claims in grid files: what they may say, and what is made of them."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from grid_texts import HEAD, THREE, grid, problem
from planning import REPOSITORY, planning_folder

from minbert.plan.plan import Plan
from minbert.spec.config import PUBLISHED
from minbert.spec.protocol import RULES
from minbert.spec.task import TASKS

VARIANTS = (
    THREE
    + """\
variants:
  one: {extends: t}
  two: {extends: t, epochs: 3}
  sst-only: {extends: t, train: sst}
  best: {best_of: [one, sst-only]}
"""
)


def claim(**keys: Any) -> str:
    said = {"text": "It is.", "section": "'5'", "variant": "one", "against": "two"} | keys
    return f"{VARIANTS}claims:\n- {{{', '.join(f'{k}: {v}' for k, v in said.items())}}}\n"


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ({"variant": "onne"}, "claim 'It is.': no variant 'onne'. Did you mean 'one'?"),
        ({"against": "[two, tow]"}, "no variant 'tow'. Did you mean 'two'?"),
        ({"against": "majorty"}, "no variant 'majorty'. Did you mean 'majority'?"),
        ({"against": "one"}, "compares 'one' with itself"),
        ({"task": "[sst, paar]"}, "the task 'paar', which variant 'one' does not have; it has pa"),
        ({"task": "paar"}, "it has para, sst, sts. Did you mean 'para'?"),
        ({"variant": "sst-only"}, "'overall' needs the task 'para', which variant 'sst-only' does"),
        ({"against": "sst-only", "task": "sts"}, "'sts' needs the task 'sts', which variant 'sst"),
        (
            {"direction": "highr"},
            "'claims.0.direction' is 'highr'; expected 'higher', 'lower', 'sa",
        ),
        ({"margin": 5}, "'claims.0.margin' is 5; expected less than or equal to 1"),
        ({"against": 57.3}, "'against' is 57.3, expected a score from -1 to 1, such as 0.573"),
        ({"task": "[sst, sst]"}, "'sst' is there twice; name each once"),
        ({"text": "''"}, "'claims.0.text' is ''; expected text that is not empty"),
        ({"against": "majority", "measure": "gap"}, "'majority' is not trained, so it has no gap"),
        ({"variants": "one"}, "unknown key 'claims.0.variants'. Did you mean 'variant'?"),
    ],
)
def test_mistakes_are_named_before_anything_runs(
    tmp_path: Path, keys: dict[str, Any], said: str
) -> None:
    found = problem(tmp_path, claim(**keys))
    assert "g0.yaml" in found and said in found, found


def test_claims_of_a_papers_files_are_joined(tmp_path: Path) -> None:
    more = "variants: {three: {extends: t}}\nclaims: [{text: B, section: a, variant: three, "
    found = grid(tmp_path, claim(variant="best", task="[sst, sts]"), more + "against: 0.3}]\n")
    assert [(each.text, each.variants, each.direction) for each in found.claims] == [
        ("It is.", ("best", "two"), "higher"),
        ("B", ("three",), "higher"),
    ]


@pytest.fixture
def base(tmp_path: Path) -> Path:
    planning_folder(tmp_path)
    grids = Path("workflow/grids")
    shutil.copytree(REPOSITORY / grids, tmp_path / grids, dirs_exist_ok=True)
    return tmp_path


def plan(base: Path, *grids: str, **config: Any) -> Plan:
    values = {"grids": list(grids), "data": "builtin", "backbone": "builtin", "seeds": [0, 1]}
    return Plan.load({**values, "results": str(base / "results"), **config}, base)


def lines(made: Plan) -> list[dict[str, Any]]:
    return list(made.shown["tables/claims"].spec["claims"])


def test_every_paper_makes_claims_with_the_published_difference(base: Path) -> None:
    papers = ("hybrid-bert", "adapter-fusion", "minbert-downstream", "minibert-unleashed")
    found = lines(plan(base, *papers))
    assert {line["paper"] for line in found} == set(papers)
    assert {line["task"] for line in found} <= {*TASKS, *RULES}
    published = {
        (line["variant"], line["others"], line["task"]): line["published"] for line in found
    }
    assert published["hybrid-bert", ("3-bert",), "normalised"] == 0
    assert published["hybrid-bert", ("3-bert",), "para"] == 0.003
    assert published["r11", (), "plain"] == 0.283
    assert published["cfimdb-finetune", ("cfimdb-last-linear",), "cfimdb"] == 0.195
    assert published["full-mean", ("last-linear",), "sst"] is None
    # R4 and R9 are the runners-up; of the changes called negligible, the largest.
    assert next(v for (name, others, _), v in published.items() if len(others) == 10) == 0.02
    others = ("lmrd-to-para", "sst-to-para", "sts-to-para")
    assert published["full-mean", others, "para"] == 0.041


def test_another_overall_rule_than_the_papers_has_no_published_difference(base: Path) -> None:
    text = f"{HEAD}{claim(task='[normalised, plain]')}"
    (base / "workflow" / "grids" / "g.yaml").write_text(text, encoding="utf-8")
    with (base / PUBLISHED).open("a", encoding="utf-8") as file:
        file.write("demo,1,One,one,dev,,,,0.9,,0.7,\ndemo,1,Two,two,dev,,,,0.5,,0.6,\n")
    found = {line["task"]: line["published"] for line in lines(plan(base, "g"))}
    assert found == {"normalised": 0.1, "plain": None}


def test_claims_need_what_they_compare_and_no_more(base: Path) -> None:
    """Predictions of all, of the best of others those of these, and histories for curves."""
    made = plan(base, "hybrid-bert", "minbert-downstream")
    wanted, of_one_stage = set[str](), set[str]()
    for line in lines(made):
        for name in (line["variant"], *line["others"]):
            variant = made.variants[line["paper"], name]
            for each in (name, *variant.best_of):
                stages = made.variants[line["paper"], each].stages
                predictions = {f"predictions.{made.train(stage.ref).key}" for stage in stages}
                wanted |= predictions
                of_one_stage |= predictions if len(predictions) == 1 else set()
            if "measure" in line:
                wanted.add(f"history.{made.train(variant.stages[-1].ref).key}")
    needs = {
        name
        for name, need in made.shown["tables/claims"].needs.items()
        if need.node.kind == "train"
    }
    assert {name.rpartition(".")[0] for name in needs} <= wanted
    assert of_one_stage <= {name.rpartition(".")[0] for name in needs}
    assert {name.rpartition(".")[2] for name in needs} == {"0", "1"}
    curves = [line for line in lines(made) if line["paper"] == "hybrid-bert" and "measure" in line]
    assert {(line["measure"], line["published"]) for line in curves} == {
        *(("spread", None), ("loss", None)),
    }
    assert {n for n in wanted if n.startswith("history.")} == {
        name.rpartition(".")[0] for name in needs if name.startswith("history.")
    }
    for paper, name in (("hybrid-bert", "3-bert"), ("minbert-downstream", "r9-dropout-0.4")):
        (stage,) = made.variants[paper, name].stages
        assert f"predictions.{made.train(stage.ref).key}.0" in needs
    (unnamed,) = made.variants["hybrid-bert", "hybrid-bert-40"].stages
    assert f"predictions.{made.train(unnamed.ref).key}.0" not in needs


def test_a_claim_is_in_no_other_key_and_without_claims_there_is_no_table(base: Path) -> None:
    path = base / "workflow" / "grids" / "hybrid-bert.yaml"
    before, text = plan(base, "hybrid-bert"), path.read_text(encoding="utf-8")
    path.write_text(text.replace("text: An encoder", "text: One"), encoding="utf-8")
    after = plan(base, "hybrid-bert")
    assert set(before.nodes) ^ set(after.nodes) == {
        (p.shown[name].kind, p.shown[name].key)
        for p in (before, after)
        for name in ("tables/claims", "report")
    }
    path.write_text(text.partition("\nclaims:")[0], encoding="utf-8")
    without = plan(base, "hybrid-bert")
    assert "tables/claims" not in without.shown
    gone = set(before.products) - set(without.products)
    assert gone == {f"tables/claims.{ending}" for ending in ("csv", "md", "tex")}
