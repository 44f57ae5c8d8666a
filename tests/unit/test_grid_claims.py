"""Claims in grid files: what they may say, and what is made of them."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from grid_texts import HEAD, THREE
from planning import REPOSITORY, planning_folder

from minbert.plan.outputs import load_plan
from minbert.plan.plan import Plan
from minbert.spec.config import PUBLISHED
from minbert.spec.protocol import RULES
from minbert.spec.task import TASKS


@pytest.fixture
def base(tmp_path: Path) -> Path:
    planning_folder(tmp_path)
    grids = Path("workflow/grids")
    shutil.copytree(REPOSITORY / grids, tmp_path / grids, dirs_exist_ok=True)
    return tmp_path


def plan(base: Path, *grids: str, **config: Any) -> Plan:
    values = {"grids": list(grids), "data": "builtin", "backbone": "builtin", "seeds": [0, 1]}
    return load_plan({**values, "results": str(base / "results"), **config}, base)


def lines(made: Plan) -> list[dict[str, Any]]:
    return list(made.shown["tables/claims"].spec["claims"])


def test_every_paper_makes_claims_with_the_published_difference(base: Path) -> None:
    papers = ("hybrid-bert", "adapter-fusion", "minbert-downstream", "minibert-unleashed")
    made = lines(plan(base, *papers))
    assert {line["paper"] for line in made} == set(papers)
    assert {line.get("measure") for line in made} == {None, "gap", "spread", "epoch", "loss"}
    assert {line["task"] for line in made} <= {*TASKS, *RULES}
    about = ("variant", "against", "task")
    found = {tuple(line[n] for n in about): line["published_difference"] for line in made}
    assert found["hybrid-bert", ("3-bert",), "normalised"] == 0
    assert found["r11", ("0.3",), "plain"] == 0.283
    assert found["cfimdb-finetune", ("cfimdb-last-linear",), "cfimdb"] == 0.195
    assert found["full-mean", ("last-linear",), "sst"] is None
    # R4 and R9 are the runners-up; of the changes called negligible, the largest.
    assert next(v for (name, others, _), v in found.items() if len(others) == 10) == 0.02
    others = ("lmrd-to-para", "sst-to-para", "sts-to-para")
    assert found["full-mean", others, "para"] == 0.041


def test_another_overall_rule_than_the_papers_has_no_published_difference(base: Path) -> None:
    text = f"{HEAD}{THREE}variants:\n  one: {{extends: t}}\n  two: {{extends: t, epochs: 3}}\n"
    claim = "{text: It is., variant: one, against: two, task: [normalised, plain]}"
    more = "{text: It is more., variant: two, against: 0.3}"
    grids = base / "workflow" / "grids"
    (grids / "g.yaml").write_text(f"{text}claims: [{claim}]\n", encoding="utf-8")
    (grids / "h.yaml").write_text(f"paper: demo\nclaims: [{more}]\n", encoding="utf-8")
    with (base / PUBLISHED).open("a", encoding="utf-8") as file:
        file.write("demo,1,One,one,dev,,,,0.9,,0.7,\ndemo,1,Two,two,dev,,,,0.5,,0.6,\n")
    found = [(line["claim"], line["published_difference"]) for line in lines(plan(base, "g", "h"))]
    assert found == [("It is.", 0.1), ("It is.", None), ("It is more.", 0.3)]


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
    assert "tables/claims" not in plan(base, "hybrid-bert").shown
