"""The pages are true: their code runs, their commands end well, and models lift to the code that they show. README and
scoreboard agree with the code.

A block of Python is executed. One that is marked `lift=NAME` is, to the letter, what the model of that name is lifted
to. A block that is marked `console` is a command a line. (The guide to fine-tuning is run by test_finetuning.py, that
to production by test_production.py, the pages on building by build/test_reference.py, the examples of CONTRIBUTING.md
by test_contributing.py.)
"""

from __future__ import annotations

import pkgutil
import re
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper, parser
from typer.main import get_command
from typer.testing import CliRunner

import onnxlift
from models.handmade import tiny_resnet
from onnxlift.cli.app import app
from onnxlift.demo import transformer_block
from onnxlift.executing import to_torch
from onnxlift.ir.graph.marks import DOMAIN
from onnxlift.lifting.ops import registry
from onnxlift.pipeline import STAGES
from onnxlift.rewriting import bodies

ROOT = Path(__file__).parents[1]
GUIDE = (ROOT / "docs" / "extending.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```python(?: lift=(\w+))?\n(.*?)```", GUIDE, re.DOTALL)
RANDOM = np.random.default_rng(0)
X = RANDOM.standard_normal((3, 4)).astype(np.float32)
KERNEL, BIAS = RANDOM.standard_normal((4, 3)).astype(np.float32), RANDOM.standard_normal(3).astype(np.float32)
TABLE = RANDOM.standard_normal((5, 3)).astype(np.float32)

# Name -> inputs and outputs, body, constants, and what it computes of X.
MODELS: dict[str, tuple[str, str, dict[str, np.ndarray], Any]] = {
    "swish": ("(float[n, 4] x) => (float[n, 4] y)", "y = acme.Swish(x)", {}, X / (1 + np.exp(-X))),
    "soft_threshold": (
        "(float[n, 4] x) => (float[n, 4] y)",
        "y = acme.SoftThreshold(x, limit)",
        {"limit": np.array([0.1, 0.2, -0.3, 0.4], np.float32)},
        np.sign(X) * np.maximum(np.abs(X) - np.array([0.1, 0.2, 0, 0.4]), 0),
    ),
    "scale": (
        "(float[n, 4] x) => (float y)",
        "y = acme.Scale <factor = 0.25, axes = [0, 1]> (x, offset)",
        {"offset": np.array([1, 2, 3, 4], np.float32)},
        (X * 0.25 - np.array([1, 2, 3, 4])).sum(),
    ),
    "dense": (
        "(float[n, 4] x) => (float[n, 3] y)",
        "y = acme.Dense(x, fc_weight, fc_bias)",
        {"fc_weight": KERNEL, "fc_bias": BIAS},
        X @ KERNEL + BIAS,
    ),
    "bag": (
        "(float[n, 4] x) => (float[n, 3] y)",
        "a = Abs(x) ids = Cast <to = 7> (a) y = acme.SumOfRows(words_weight, ids)",
        {"words_weight": TABLE},
        TABLE[np.abs(X).astype(np.int64)].sum(1),
    ),
    "gelu": ("(float[n, 4] x) => (float[n, 4] y)", "y = Gelu(x)", {}, None),
}


def model_of(name: str) -> onnx.ModelProto:
    signature, body, constants, _ = MODELS[name]
    head = '<ir_version: 10, opset_import: ["" : 20, "com.acme" : 2]>'
    model = parser.parse_model(f"{head} {name} {signature} {{ {body.replace('acme.', 'com.acme.')} }}")
    model.graph.initializer.extend(numpy_helper.from_array(array, key) for key, array in constants.items())
    return model


@pytest.fixture(scope="module", autouse=True)
def guide() -> Iterator[dict[str, Any]]:
    """Everything that the guide defines, registered as long as these tests run."""
    registry.load_builtin()
    before = dict(registry._TABLE)
    names: dict[str, Any] = {"__name__": "guide"}
    for lifted, code in BLOCKS:
        if not lifted:
            exec(compile(code, "extending.md", "exec", dont_inherit=True), names)
    yield names
    registry._TABLE.clear()
    registry._TABLE.update(before)


def test_every_model_of_the_guide_is_known() -> None:
    assert {name for name, _ in BLOCKS if name} == set(MODELS)


@pytest.mark.parametrize("name", list(MODELS))
def test_the_guide_shows_what_is_lifted(name: str) -> None:
    (shown,) = (code for lifted, code in BLOCKS if lifted == name)
    lifted = onnxlift.lift(model_of(name))
    for line in shown.splitlines():
        assert line in lifted.source, lifted.source
    expected = MODELS[name][-1]
    result = lifted.module()(to_torch(X)).detach().numpy()
    if expected is not None:
        np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-5)


def test_in_branches_loops_and_functions() -> None:
    model = parser.parse_model(
        """
        <ir_version: 10, opset_import: ["" : 20, "com.acme" : 2, "local" : 1]>
        everywhere (float[n, 4] x, int64 trips, bool go) => (float[n, 4] y, float[n, 4] z)
        {
            a = local.Twice(x)
            b = If (go) <
                then_branch = t () => (float[n, 4] t1) { t1 = com.acme.Swish(a) },
                else_branch = e () => (float[n, 4] e1) { e1 = Neg(a) }
            >
            y = Loop (trips, go, b) <body = l (int64 i, bool c, float[n, 4] s) => (bool d, float[n, 4] r) {
                d = Identity(c) r = com.acme.Swish(s)
            }>
            z = com.acme.Swish(a)
        }
        <domain: "local", opset_import: ["" : 20, "com.acme" : 2]>
        Twice (u) => (w) { v = com.acme.Swish(u) w = com.acme.Swish(v) }
        """
    )

    def swish(x: np.ndarray, times: int) -> np.ndarray:
        return x if not times else swish(x / (1 + np.exp(-x)), times - 1)

    y, z = onnxlift.convert(model)(to_torch(X), to_torch(np.array(2)), to_torch(np.array(True)))
    np.testing.assert_allclose(y.numpy(), swish(X, 5), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(z.numpy(), swish(X, 3), rtol=1e-5, atol=1e-6)


def test_a_registered_operator_goes_before_a_function_of_the_model() -> None:
    model = parser.parse_model(
        """
        <ir_version: 10, opset_import: ["" : 20, "com.acme" : 2]>
        own (float[n, 4] x) => (float[n, 4] y) { y = com.acme.Swish(x) }
        <domain: "com.acme", opset_import: ["" : 20]>
        Swish (u) => (w) { w = Neg(u) }
        """
    )
    np.testing.assert_allclose(onnxlift.convert(model)(to_torch(X)).numpy(), X / (1 + np.exp(-X)), rtol=1e-5, atol=1e-6)


def test_all_that_is_missing_is_said_at_once() -> None:
    model = parser.parse_model(
        """
        <ir_version: 10, opset_import: ["" : 20, "com.acme" : 1]>
        speech (float[n, 4] x) => (float[n, 4] y)
        {
            a = com.acme.MelBank(x)
            b = com.acme.MelBank(a)
            c = com.acme.Scale <unknown = 1> (b)
            d = Relu(c)
            y = com.acme.Other(d)
        }
        """
    )
    with pytest.raises(onnxlift.UnsupportedError) as caught:
        onnxlift.lift(model)
    assert [node.op_type for node in caught.value.nodes] == ["MelBank", "MelBank", "Scale", "Other"]
    message = str(caught.value)
    assert message.startswith("cannot lift speech.onnx: 3 operators are not supported (4 of 5 nodes)")
    assert re.search(r"com\.acme::MelBank +opset 1 +2 nodes, first: ", message)
    assert "its attribute unknown is not known for this operator" in message
    assert '@onnxlift.op("MelBank", domain="com.acme"); see docs/extending.md.' in message


README = ROOT / "README.md"
PAGES = {"getting-started": {}, "api": {"block.onnx": transformer_block}, "README": {"resnet50.onnx": tiny_resnet}}
"""Pages whose code is run from top to bottom, in a folder of its own, and the models that they take for granted."""


def page_of(name: str) -> str:
    return (README if name == "README" else ROOT / "docs" / f"{name}.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", PAGES)
def test_the_code_of_a_page_runs(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    for module in [module for module in sys.modules if module.partition(".")[0] == "out"]:
        monkeypatch.delitem(sys.modules, module)
    for file, build in PAGES[name].items():
        onnx.save(build(), file)
    names: dict[str, Any] = {"__name__": "page"}
    blocks = re.findall(r"^```(\w+)(?: lift=(\w+))?\n(.*?)^```", page_of(name), re.DOTALL | re.MULTILINE)
    for language, lifted, code in blocks:
        if language == "console":
            for command in code.splitlines():
                program, *arguments = shlex.split(command.removeprefix("$ "))
                result = CliRunner().invoke(app, arguments)
                assert (program, result.exit_code) == ("onnxlift", 0), (command, result.output)
        elif lifted:
            assert code in onnxlift.lift(f"{lifted}.onnx").source
        elif language == "python" and not code.startswith("class "):
            exec(compile(code, name, "exec", dont_inherit=True), names)
    for module in [module for module in sys.modules if module.partition(".")[0] == "out"]:
        del sys.modules[module]


def test_every_block_of_python_in_the_docs_is_run_by_a_test() -> None:
    elsewhere = {"building", "building-reference", "extending", "finetuning", "production"}
    pages = {path.stem for path in (ROOT / "docs").glob("*.md") if "```python" in path.read_text(encoding="utf-8")}
    assert pages <= {*PAGES, *elsewhere}


def test_the_commands_that_the_readme_names_are_there() -> None:
    blocks = re.findall(r"^```\n(onnxlift .*?)^```", README.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    listed = re.findall(r"^onnxlift (\w+) (.*?)  ", "".join(blocks), re.MULTILINE)
    commands = vars(get_command(app))["commands"]
    assert {name for name, _ in listed} <= set(commands)  # the page of commands is made of --help, and has them all
    for name, arguments in listed:
        options = {option for parameter in commands[name].params for option in parameter.opts}
        assert options >= set(re.findall(r"(?<!\S)--?[a-z][a-z-]*", arguments)), (name, arguments)


def test_the_readme_shows_the_peers_in_the_versions_that_are_measured() -> None:
    """What they pass takes a run: `make peers` prints the table."""
    (table,) = re.findall(r"<!-- peers -->\n(.*?)<!-- end", README.read_text(encoding="utf-8"), re.DOTALL)
    pins = "\n".join((ROOT / file).read_text(encoding="utf-8") for file in ("constraints.txt", "benchmarks/peers.txt"))
    versions = dict(re.findall(r"^([\w-]+)==(\S+)$", pins, re.MULTILINE)) | {"onnxlift": onnxlift.__version__}
    packages = {"onnx.reference": "onnx", "ONNX Runtime": "onnxruntime"}
    rows = re.findall(r"^\| ([\w. ]+) \| (\S+) \| ([\d,]+) \|$", table, re.MULTILINE)
    assert len(rows) == 5
    assert [version for _, version, _ in rows] == [versions[packages.get(name, name)] for name, _, _ in rows]
    (of_nodes,) = re.findall(r"among them ([\d,]+) of the", " ".join(README.read_text(encoding="utf-8").split()))
    assert rows[0][::2] == ("onnxlift", of_nodes)


def test_what_the_page_on_python_describes_is_there() -> None:
    for name in re.findall(r"^::: (\S+)$", page_of("api"), re.MULTILINE):
        assert pkgutil.resolve_name(name) is not None


def test_the_site_has_every_page() -> None:
    config = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    for path in (ROOT / "docs").rglob("*.md"):
        page = path.relative_to(ROOT / "docs").as_posix()
        assert f" {page}\n" in config, page


def test_the_readme_shows_what_is_lifted(request: pytest.FixtureRequest) -> None:
    text = README.read_text(encoding="utf-8")
    (shown,) = re.findall(r"```python\n(class .*?)```", text, re.DOTALL)
    (written,) = re.findall(r"class .*?return [^\n]*\n", onnxlift.lift(transformer_block()).source, re.DOTALL)[:1]
    if request.config.getoption("--update-golden"):
        README.write_text(text.replace(shown, written), encoding="utf-8")
        return
    assert shown == written, "run pytest tests/test_docs.py --update-golden, and read what it writes"


def test_commands_and_files_that_the_readme_names_exist() -> None:
    text = README.read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)#:]+)\)", text):
        assert (ROOT / target).exists(), target
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for goal in re.findall(r"^make ([\w-]+)", text, re.MULTILINE):
        assert f"\n{goal}:" in makefile, goal


ARCHITECTURE = [ROOT / "docs" / "ARCHITECTURE.md", *sorted((ROOT / "docs" / "stages").glob("*.md"))]


@pytest.mark.parametrize("page", ARCHITECTURE, ids=lambda page: page.stem)
def test_the_files_that_the_architecture_names_exist(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    source = ROOT / "src" / "onnxlift"
    named = re.findall(r"`((?:\w+/)+(?:\w+\.(?:py|md))?|\w+\.py)`", text)
    assert [target for target in named if not ((source / target).exists() or (ROOT / target).exists())] == []
    links = re.findall(r"\]\(([\w./-]+\.md)\)", text)
    assert [link for link in links if not (page.parent / link).exists()] == []


@pytest.mark.parametrize("page", ARCHITECTURE, ids=lambda page: page.stem)
def test_the_architecture_shows_what_is_lifted(page: Path) -> None:
    """A block that is marked `golden=NAME` stands in the golden source of that name."""
    blocks = re.findall(r"^```python(?: golden=(\w+))?\n(.*?)^```", page.read_text(encoding="utf-8"), re.DOTALL | re.M)
    for name, code in blocks:
        assert code in (ROOT / "tests" / "golden" / "sources" / f"{name}.py").read_text(encoding="utf-8"), code


def test_every_stage_has_a_page() -> None:
    """The first line of a page names the stages that it is about."""
    titles = " ".join(page.read_text(encoding="utf-8").partition("\n")[0].lower() for page in ARCHITECTURE[1:])
    assert [stage.name for stage in STAGES if stage.name not in titles] == []


SCOREBOARD = ROOT / "docs" / "OPERATORS.md"


def test_the_scoreboard_is_of_today() -> None:
    """What it says of tests takes a run; which operators and revisions there are does not."""
    revisions: dict[tuple[str, str], list[int]] = {key: [] for key in bodies.operators()}
    for operator in registry.operators():
        if operator.domain != DOMAIN and not registry.is_users(operator.domain, operator.op_type):
            revisions[operator.domain, operator.op_type] = []
    for schema in onnx.defs.get_all_schemas_with_history():
        revisions.setdefault((schema.domain, schema.name), []).append(schema.since_version)
    shown = {}
    for section in SCOREBOARD.read_text(encoding="utf-8").split("\n## ")[1:]:
        domain, head, _, *rows = (line for line in section.splitlines() if line)
        for row in rows:
            cells = dict(zip(head.split(" | "), row.split(" | "), strict=True))
            versions = [int(version) for version in re.findall(r"\d+", cells.get("since", ""))]
            shown["" if domain == "ai.onnx" else domain, cells["| operator"].removeprefix("| ")] = versions
    expected = {key: sorted(versions) for key, versions in revisions.items()}
    # An operator that ONNX does not define has no revisions, and is listed when `make scoreboard` has measured it.
    unlisted = {key for key in expected.keys() - shown.keys() if not expected[key]}
    expected = {key: versions for key, versions in expected.items() if key not in unlisted}
    assert shown == expected, "run `make scoreboard`, and read what it writes"


def test_the_readme_shows_the_figures_of_the_scoreboard() -> None:
    (figures,) = re.findall(r"<!-- scoreboard -->\n(.*?)\n<!-- end", README.read_text(encoding="utf-8"), re.DOTALL)
    assert f"\n\n{figures}\n\n" in SCOREBOARD.read_text(encoding="utf-8"), "run `make scoreboard`"
