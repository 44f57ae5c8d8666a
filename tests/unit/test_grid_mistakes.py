"""Grid files: every mistake with its message."""

from __future__ import annotations

from pathlib import Path

import pytest
from grid_texts import HEAD, TASKS, problem

from minbert.base.errors import UserError, nearest
from minbert.spec.config import load_config
from minbert.spec.resolve import resolve

BASE = f"templates: {{t: {{{TASKS}}}}}\n"


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("variants: {a: {epoch: 3}}", ["variant 'a'", "unknown key 'epoch'", "mean 'epochs'"]),
        (
            "variants: {a: {optimiser: {lrr: 3}}}",
            ["variant 'a'", "unknown key 'optimiser.lrr'", "mean 'lr'"],
        ),
        (
            "templates: {t: {tasks: {sst: {head: {depht: null}}}}}",
            ["template 't'", "unknown key 'tasks.sst.head.depht'", "mean 'depth'"],
        ),
        ("variants: {a: {tasks: {stss: {}}}}", ["unknown key 'tasks.stss'", "mean 'sts'"]),
        ("variant: {}", ["unknown key 'variant'. Did you mean 'variants'?"]),
        (
            "variants: {a: {stages: [{name: x, epoch: 1}]}}",
            ["variant 'a'", "unknown key 'stages.x.epoch'", "mean 'epochs'"],
        ),
        ("variants: {a: {stages: {}}}", ["'stages' is a list"]),
        ("variants: {a: {stages: [{epochs: 1}]}}", ["stage 1: expected a mapping with a 'name'"]),
        ("variants: {a: 3}", ["'variants.a' is 3; expected a mapping"]),
        ("variants: {a: {extends: t, label: [x]}}", ["'a'", "'label' is ['x']; expected text"]),
        ("variants: {a: {extends: tt}}", ["variant 'a': extends unknown 'tt'", "mean 't'"]),
        (
            f"variants: {{'a{{x}}': {{extends: t, expand: {{? 'train{'.x' * 3000}' : [1]}}}}}}",
            ["variant 'a{x}': 'expand': unknown key 'train'"],
        ),
        (
            f"variants: {{a: {{extends: t, stages: [{'{name: s}, ' * 2000}]}}}}",
            ["variant 'a': 'stages' has 2,000; at most 50"],
        ),
        ("variants: {a: {extends: [[t]]}}", ["'extends' is a name or a list of names: [['t']]"]),
        ("variants: {a: {extends: t, tasks: {'*': x}}}", ["'tasks.*' is 'x'; expected a mapping"]),
        (
            f"variants: {{{', '.join(f'a{n}: {{extends: a{n + 1}}}' for n in range(2000))}}}",
            ["variant 'a", "'extends' goes over more than 50 levels"],
        ),
        (
            "variants: {a0: {extends: t}"
            + "".join(f", a{n}: {{extends: t, start: a{n - 1}}}" for n in range(1, 100))
            + "}",
            ["variant 'a", "'start': comes after 50 other stages or more"],
        ),
        (
            "variants: {'a{lr}-{eps}': {extends: t, expand: {optimiser.lr: "
            f"{list(range(1, 31))}, optimiser.eps: {list(range(1, 31))}}}}}}}",
            ["variant 'a{lr}-{eps}': 'expand' makes 900 variants; at most 500"],
        ),
        ("variants: {a: {extends: {x: y}}}", ["'extends' is a name or a list of names"]),
        (
            "variants: {a: {extends: b}, b: {extends: [c]}, c: {extends: a}}",
            ["'extends' goes round in a circle: a -> b -> c -> a"],
        ),
        ("variants: {a: {extends: a}}", ["circle: a -> a"]),
        ("variants:\n  a: {}\n  a: {}\n", ["line 6", "duplicate key 'a'"]),
        ("variants: {t: {}}", ["the name 't' is taken by", "template 't'"]),
        ("variants: {backbone: {extends: t}}", ["is not 'backbone'"]),
        ("variants: {a/b: {extends: t}}", ["variant 'a/b': a name has letters"]),
        ("variants: {'a{x}': {extends: t}}", ["must hold no placeholder", "found x"]),
        (
            "variants: {a: {extends: t, expand: {optimiser.lr: [1]}}}",
            ["variant 'a'", "must hold {lr}", "found none"],
        ),
        (
            "variants: {'a{lr}': {extends: t, expand: {optimiser.lr: 1e-3}}}",
            ["'expand.optimiser.lr' is 0.001; expected a list"],
        ),
        ("variants: {'a{lr}': {expand: [1]}}", ["'expand' is a mapping"]),
        (
            "variants: {'a{l}': {extends: t, expand: {optimiser.l: [1]}}}",
            ["'expand': unknown key 'optimiser.l'", "mean 'lr'"],
        ),
        (
            "variants: {'a{sst}': {extends: t, train: sst, expand: {tasks.sst: [5, 6]}}}",
            ["variant 'a{sst}': 'expand': 'tasks.sst' is 5; expected a mapping"],
        ),
        (
            "variants: {'a{sst}': {extends: t, stages: [{name: s, train: sst}], "
            "expand: {stages.s.tasks.sst: [5]}}}",
            ["variant 'a5': 'expand.stages.s.tasks.sst': 'tasks.sst' is 5; expected a mapping"],
        ),
        (
            "variants: {'a{lr}': {extends: t, expand: {optimiser.lr: [1e-4, 0.0001]}}}",
            ["the name 'a1e-4' is taken by", "variant 'a1e-4'"],
        ),
        (
            "variants: {'a{lr}': {extends: t, expand: {stages.x.optimiser.lr: [1]}}}",
            ["there is no stage 'x'. Known: main"],
        ),
        ("templates: {u: {expand: {epochs: [1]}}}", ["template 'u'", "belongs to variants"]),
        (
            "variants: {a: {extends: t, stages: [{name: x}, {name: x}]}}",
            ["variant 'a': two stages are called 'x'"],
        ),
        (
            "variants: {a: {extends: t, optimiser: {lr: fast}}}",
            ["variant 'a', stage 'main': 'optimiser.lr' is 'fast'; expected a number"],
        ),
        (
            "variants: {a: {extends: t, epochs: 1.5, optimiser: {lr: fast}}}",
            ["'epochs' is 1.5; expected a whole number", "'optimiser.lr' is 'fast'; expected a n"],
        ),
        ("variants: {a: {extends: t, optimiser: 3}}", ["'optimiser' is 3; expected a mapping"]),
        ("variants: {a: {extends: t, train: []}}", ["'train' is an empty list; name a task"]),
        (
            "variants: {a: {extends: t, train: [sst, sst]}}",
            ["'train' names 'sst' twice; name each task once"],
        ),
        *(
            (f"variants: {{a: {{extends: t, {keys}}}}}", [f"'{path}' is 1", "; expected less than"])
            for keys, path in (
                (f"epochs: {10**15}", "epochs"),
                (f"sampler: {{steps: {10**17}}}", "sampler.steps"),
                (f"sampler: {{examples: {10**17}}}", "sampler.examples"),
                (f"tasks: {{sst: {{batch_size: {10**12}}}}}", "tasks.sst.batch_size"),
                ("tasks: {sst: {head: {width: 100000}}}", "tasks.sst.head.width"),
                ("adapter: {width: 100000}", "adapter.width"),
            )
        ),
        (
            "templates: {u: {tasks: {sts: {loss: mse, pairing: siamese, features: [u, u]}}}}\n"
            "variants: {a: {extends: u}}",
            ["'tasks.sts.features': 'u' is there twice; name each once"],
        ),
        ("variants: {majority: {extends: t}}", ["is not 'backbone' or 'majority'"]),
        (
            "variants: {a: {extends: t}, b: {best_of: [a, a]}}",
            ["variant 'b': 'best_of': 'a' is there twice"],
        ),
        (
            "parameter_ratios: [[a, a]]\nvariants: {a: {extends: t}}",
            ["'parameter_ratios.0': 'a' is there twice; name each once"],
        ),
        (
            "variants: {a: {extends: t}}\n"
            "figures: {f: {kind: loss-curves, title: T, variants: [a, a]}}",
            ["'figures.f.variants': 'a' is there twice"],
        ),
        *(
            (
                f"figures: {{f: {{kind: ranking, title: T, options: {{{key}: x}}}}}}",
                [f"'figures.f.options': '{key}' is no option, but the figure's own; take it out"],
            )
            for key in ("title", "caption", "variants", "stamp")
        ),
        (
            "variants: {a: {extends: t, shared_end: top}}",
            ["'shared_end: top' with 'shared_layers: all': give a number"],
        ),
        (
            "variants: {a: {extends: t, shared_layers: half}}",
            ["'shared_layers' is 'half'; expected a whole number or a number or 'all' or 'none'"],
        ),
        (
            "variants: {a: {extends: t, tasks: {sst: {loss: cross_entrpy}}}}",
            [
                "stage 'main': 'tasks.sst.loss': unknown loss 'cross_entrpy'",
                "mean 'cross_entropy'?",
                "All are in docs/adding.md",
            ],
        ),
        *(
            (f"variants: {{a: {{extends: t, {key}}}}}", [f"'{path}': expected a number, not true"])
            for key, path in (
                ("shared_layers: true", "shared_layers"),
                ("epochs: true", "epochs"),
                ("optimiser: {lr: true}", "optimiser.lr"),
                ("optimiser: {betas: [true, 0.9]}", "optimiser.betas"),
                ("smart: {weight: false}", "smart.weight"),
                ("dropout: {embedding: false}", "dropout.embedding"),
                ("tasks: {sst: {weight: true}}", "tasks.sst.weight"),
                ("tasks: {sst: {head: {dropout: false}}}", "tasks.sst.head.dropout"),
            )
        ),
        (
            "variants: {a: {extends: t, optimiser: {lr: 1_0}}}",
            ["'optimiser.lr': expected a number, found '1_0'"],
        ),
        (
            "variants: {a: {extends: t, optimiser: {lr: .nan}}}",
            ["'optimiser.lr' is nan; expected a finite number"],
        ),
        (
            "variants: {a: {extends: t}}\n"
            "claims: [{text: T, section: S, variant: a, against: true}]",
            ["'claims.0.against': expected a number, not true or false"],
        ),
        (
            "claims: [{text: T, section: S, variant: a, against: [b]}]",
            ["'claims.0.against' is ['b']; expected text or a number or a list of 2 or more"],
        ),
        (
            "variants: {'a{lr}': {extends: t, expand: {optimiser.lr: [.inf, 1e-3]}}}",
            ["variant 'ainf', stage 'main': 'optimiser.lr' is inf; expected a finite number"],
        ),
        (
            "variants: {'a{lr}': {extends: t, expand: {optimiser.lr: [.nan]}}}",
            ["variant 'anan', stage 'main': 'optimiser.lr' is nan; expected a finite number"],
        ),
        (f"variants: {{{'a' * 101}: {{extends: t}}}}", ["has at most 100 characters"]),
        ("variants: {a: {extends: t, tasks: {sst: {loss: mse}}}}", ["stage 'main'", "not 'mse'"]),
        ("variants: {a: {epochs: 3}}", ["variant 'a'", "the key 'tasks' is missing"]),
        (
            "variants: {a: {extends: t, surgery: pcgrad}}",
            ["surgery 'pcgrad' needs two or more trained tasks"],
        ),
        (
            "variants: {ab: {extends: t}}\n"
            "figures: {f: {kind: loss-curves, title: T, variants: [abc]}}",
            ["figure 'f': unknown variant 'abc'. Did you mean 'ab'?"],
        ),
        (
            "figures: {f: {kind: loss-curve, title: T, variants: [a]}}",
            ["'figures.f.kind': unknown figure 'loss-curve'", "docs/figures.md"],
        ),
        ("figures: {f: {kind: loss-curves, variants: []}}", ["'figures.f.title' is missing"]),
    ],
)
def test_problems(tmp_path: Path, text: str, parts: list[str]) -> None:
    message = problem(tmp_path, text if "templates" in text else text + "\n" + BASE)
    assert str(tmp_path / "g0.yaml") in message
    for part in parts:
        assert part in message


def test_the_defaults_of_a_configuration_are_mappings_where_stages_have_them(
    tmp_path: Path,
) -> None:
    message = problem(tmp_path, f"variants: {{a: {{{TASKS}}}}}", defaults={"tasks": ["sst"]})
    assert "config: 'defaults.tasks' is ['sst']; expected a mapping" in message


def test_one_grid_by_two_names(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(HEAD)
    for other in ("./a.yaml", "b.yaml"):
        (tmp_path / "b.yaml").unlink(missing_ok=True)
        (tmp_path / "b.yaml").symlink_to("a.yaml")
        with pytest.raises(
            UserError, match=rf"grids 'a\.yaml' and '{other}' are one file, .*name one"
        ):
            resolve(load_config({"grids": ["a.yaml", other]}), tmp_path)


def test_the_same_name_in_two_files_of_a_paper(tmp_path: Path) -> None:
    text = f"variants: {{a: {{{TASKS}}}}}"
    message = problem(tmp_path, text, text)
    assert "g1.yaml: variant 'a': the name 'a' is taken by" in message
    assert "g0.yaml: variant 'a'" in message
    figure = "figures: {f: {kind: loss-curves, title: T, variants: [a]}}"
    message = problem(tmp_path, f"{text}\n{figure}", figure)
    assert f"g1.yaml: figure 'f' is in {tmp_path / 'g0.yaml'} too" in message
    message = problem(tmp_path, text, figure, figure)
    assert f"g2.yaml: figure 'f' is in {tmp_path / 'g1.yaml'} too" in message


def test_a_mistake_in_a_further_file_of_a_paper_names_that_file(tmp_path: Path) -> None:
    text = f"variants: {{a: {{{TASKS}}}}}"
    figure = "figures: {f: {kind: loss-curves, title: T, variants: [b]}}"
    for mistake, said in (
        (figure, "figure 'f': unknown variant 'b'"),
        ("parameter_ratios: [[a, b]]", "parameter_ratios: no variant 'b'"),
        ("single: b", "single: no variant 'b'"),
        ("overall_tasks: [sts]", "overall_tasks: no variant has the task 'sts'"),
    ):
        assert f"{tmp_path / 'g1.yaml'}: {said}" in problem(tmp_path, text, mistake)


def test_files_of_a_paper_agree_on_its_rule(tmp_path: Path) -> None:
    (tmp_path / "b.yaml").write_text(HEAD.replace("normalised", "plain"))
    (tmp_path / "a.yaml").write_text(HEAD)
    with pytest.raises(UserError, match=r"b\.yaml: paper 'demo' has another 'overall'"):
        resolve(load_config({"grids": ["a.yaml", "b.yaml"]}), tmp_path)


def test_any_file_of_a_paper_may_give_what_is_said_of_the_whole(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("paper: demo\noverall: plain\ndescription: D\n")
    (tmp_path / "b.yaml").write_text(
        f"paper: demo\ntitle: T\noverall_tasks: [sst]\nvariants: {{a: {{{TASKS}}}}}\n"
    )
    (found,) = resolve(load_config({"grids": ["a.yaml", "b.yaml"]}), tmp_path)
    assert (found.title, found.overall, found.description) == ("T", "plain", "D")
    assert (found.overall_tasks, found.path) == (("sst",), tmp_path / "b.yaml")
    (tmp_path / "a.yaml").write_text("paper: demo\n")
    (found,) = resolve(load_config({"grids": ["a.yaml", "b.yaml"]}), tmp_path)
    assert found.overall == "normalised"


def test_a_paper_needs_its_header(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("paper: A b\noverall: best\n")
    with pytest.raises(UserError) as error:
        resolve(load_config({"grids": ["a.yaml"]}), tmp_path)
    text = str(error.value)
    assert "'paper' is 'A b'" in text
    assert "'overall' is 'best'; expected 'normalised' or 'plain'" in text
    assert "'paper' is 'A b'; expected text that matches" in text


@pytest.mark.parametrize(
    ("paper", "message"),
    [
        ("all", "a paper cannot be called 'all', the name of the common figures"),
        ("index", "a paper cannot be called 'index', the name of the index"),
        ("claims", "a paper cannot be called 'claims', the name of the table of claims"),
        ("p" * 101, "expected at most 100 characters"),
    ],
)
def test_papers_whose_tables_could_not_be_published(
    tmp_path: Path, paper: str, message: str
) -> None:
    text = problem(tmp_path, f"variants: {{a: {{{TASKS}}}}}", head=HEAD.replace("demo", paper))
    assert message in text and "g0.yaml: 'paper'" in text


@pytest.mark.parametrize(
    ("word", "choices", "said"),
    [
        ("SST", ["sst", "sts"], " Did you mean 'sst'?"),
        ("multi-task", ["Multitask", "single"], " Did you mean 'Multitask'?"),
        ("DistilBERT", ["bert"], ""),
        ("cosine", ["constant", "linear"], ""),
        ("x" * 10_000, ["xx", "y"], ""),
    ],
)
def test_only_close_words_are_suggested(word: str, choices: list[str], said: str) -> None:
    assert nearest(word, choices) == said
