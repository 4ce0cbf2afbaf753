"""The configuration of a batch: what it may say, and that all that is wrong is named with its line."""

from __future__ import annotations

from pathlib import Path

import pytest

import onnxlift
from onnxlift.workbench.batch.config import Config, Inputs, read_config
from onnxlift.workbench.batch.example import EXAMPLE, write_example
from onnxlift.workbench.batch.located import ConfigError, parse_items
from onnxlift.workbench.batch.steps import VERBS, Step, is_offered, is_saved, parameters

FORK = """\
# Example configuration for run.py
inputs:
  - path: data/onnx
    recursive: true
    pattern: '*.onnx'
output_dir: data/executorch
conversion:
  save_input_names: false
  attach_onnx_mapping: false
example_inputs:
  default_fill: zeros
  overrides:
    input_1:
      shape: [1, 3, 224, 224]
      dtype: float32
      fill: ones
device: cpu
input_shapes:
  data/onnx/model_without_shapes.onnx:
    input_1: [1, 3, 224, 224]
"""


def read(text: str, tmp_path: Path) -> Config:
    path = tmp_path / "batch.yml"
    path.write_text(text, encoding="utf-8")
    return read_config(path)


def test_the_configuration_of_onnx2torch_is_read_as_it_is(tmp_path: Path) -> None:
    config = read(FORK, tmp_path)
    assert config.inputs == (Inputs("data/onnx", "*.onnx", True, line=3),)
    assert config.output_dir == Path("data/executorch") and config.device == "cpu"
    assert config.input_shapes == {"data/onnx/model_without_shapes.onnx": {"input_1": (1, 3, 224, 224)}}
    assert config.examples["input_1"].shape == (1, 3, 224, 224) and config.examples["input_1"].fill == "ones"
    assert config.steps[0].name == "simplify"
    assert any("conversion" in note for note in config.notes)


def test_shapes_alone_name_the_models(tmp_path: Path) -> None:
    config = read("input_shapes:\n  data/a.onnx:\n    input_1: [1, 3, 224, 224]\n", tmp_path)
    assert [each.path for each in config.inputs] == ["data/a.onnx"]


def test_the_forms_of_inputs_and_steps(tmp_path: Path) -> None:
    config = read(
        "inputs: ['a/*.onnx', {path: b, pattern: '*.ort', recursive: false}]\nsteps: [lint, opset: {version: 17}]",
        tmp_path,
    )
    assert config.inputs == (Inputs("a/*.onnx", line=1), Inputs("b", "*.ort", False, line=1))
    assert [str(step) for step in config.steps] == ["lint", "opset(version=17)"]
    same = read_config({"inputs": ["a/*.onnx", {"path": Path("b")}], "steps": ["lint", {"opset": {"version": 17}}]})
    assert [str(step) for step in same.steps] == ["lint", "opset(version=17)"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("inputs: m\nstep: [lint]", "batch.yml:2: there is no key 'step': did you mean 'steps'?"),
        ("inputs: m\nsteps:\n - simplfy", "batch.yml:3: there is no step 'simplfy': did you mean 'simplify'?"),
        ("inputs: m\nsteps: simplify", "batch.yml:2: `steps` must be a list with some of simplify"),
        ("inputs: m\nsteps: []", "batch.yml:2: `steps` must be a list"),
        ("inputs: m\nsteps: [{lint: {}, opset: {}}]", "batch.yml:2: a step is a name, like `- simplify`"),
        (
            "inputs: m\nsteps:\n- simplify:\n    keeep: [a]",
            "batch.yml:4: simplify has no option 'keeep': did you mean 'keep'?",
        ),
        (
            "inputs: m\nsteps:\n- simplify:\n    rtol: low",
            "batch.yml:4: the option 'rtol' of simplify cannot be 'low': it is a number or nothing.",
        ),
        (
            "inputs: m\nsteps:\n- opset: {version: '17'}",
            "batch.yml:3: the option 'version' of opset cannot be '17': it is a whole number or nothing.",
        ),
        ("inputs: m\nsteps:\n- lint: {fail_on: bad}", "cannot be 'bad': it is 'error' or 'warning' or 'info'."),
        ("inputs: m\nsteps:\n- lint: {weights: 1}", "cannot be 1: it is true or false."),
        (
            "inputs: m\nsteps:\n- convert: {structure: maybe}",
            "the option 'structure' of convert cannot be 'maybe': it is 'names' or 'repetition' or 'flat' or nothing.",
        ),
        ("inputs: m\nsteps:\n- verify: {lifted: x}", "verify has no option 'lifted'"),
        ("inputs: m\nsteps:\n- verify: {against: a.py}", "cannot be 'a.py': a batch runs no code that its file names."),
        ("inputs: m\nsteps:\n- simplify: {save: 3}", "batch.yml:3: `save` must be true or false."),
        (
            "inputs: m\nsteps:\n- simplify: 3",
            "batch.yml:3: what simplify is told must be a mapping, not a whole number.",
        ),
        ("inputs: m\nsteps:\n- convert\n- convert", "batch.yml:4: convert would write what convert has written"),
        ("inputs: 3", "batch.yml:1: an input must be a mapping, not a whole number."),
        ("inputs: []", "batch.yml:1: `inputs` is empty"),
        ("inputs: {pattern: x}", "batch.yml:1: an input needs a `path`."),
        ("inputs: {path: x, recursive: 3}", "batch.yml:1: `recursive` of an input cannot be 3."),
        ("inputs: {path: x, folder: 3}", "batch.yml:1: an input has no key 'folder': it has path, pattern, recursive."),
        ("jobs: 2", "batch.yml: `inputs` is missing: say where the models are."),
        ("inputs: m\njobs: true", "batch.yml:2: `jobs` must be a whole number from 1 on, not True."),
        ("inputs: m\ntimeout: -1", "batch.yml:2: `timeout` must be a number of seconds, not -1."),
        ("inputs: m\ntimeout: .nan", "batch.yml:2: `timeout` must be a number of seconds, not nan."),
        ("inputs: m\nmemory: much", "batch.yml:2: `memory`: 'much' is not a size: write it like 5GB, 500MB or 2GiB."),
        ("inputs: m\non_error: explode", "batch.yml:2: `on_error` must be continue or stop, not 'explode'."),
        ("inputs: m\nopen_sizes: maybe", "batch.yml:2: `open_sizes` must be refuse or keep, not 'maybe'."),
        ("inputs: m\ndevice: toaster", "batch.yml:2: `device` must be like cpu, cuda or cuda:1, not 'toaster'."),
        (
            "inputs: m\ninput_shapes:\n  a.onnx:\n    x: 1, 3",
            "batch.yml:4: a shape is a list of whole numbers, like [1, 3, 224, 224], not '1, 3'.",
        ),
        ("inputs: m\ninput_shapes:\n  a.onnx:\n    x: [-1, 3]", "batch.yml:4: a shape is a list of whole numbers"),
        ("inputs: m\ninput_shapes: [a]", "batch.yml:2: `input_shapes` must be a mapping, not a list."),
        ("inputs: m\nexample_inputs:\n  a.onnx: gone.npz", "batch.yml:3: there is no file 'gone.npz' with inputs."),
        (
            "inputs: m\nexample_inputs:\n  default_fill: sevens",
            "batch.yml:3: `default_fill` must be zeros, ones, random",
        ),
        ("- a\n- b", "batch.yml: this holds a list, and should hold keys"),
        ("", "batch.yml: `inputs` is missing"),
    ],
)
def test_what_is_wrong_is_named_with_its_line(text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        read(text, tmp_path)
    assert message in str(caught.value)


@pytest.mark.parametrize("option", ["dtype: float16", "structure: flat", "structure: null", "skip_passes: [linear]"])
def test_options_are_read_by_their_types(option: str, tmp_path: Path) -> None:
    """Also where the type of another option is known to type checkers only."""
    assert read(f"inputs: m\nsteps:\n- convert: {{{option}}}", tmp_path).steps[0].options


def test_all_that_is_wrong_is_named_at_once(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        read("inputs: m\njobs: none\nsteps:\n  - fly\n  - opset: {speed: 3}\ntimeout: long\n", tmp_path)
    lines = str(caught.value).splitlines()
    assert [line.split(":")[1] for line in lines] == ["2", "4", "5", "6"]


BOMB = "a: &a [x, x, x, x, x, x, x, x, x, x]\n" + "\n".join(
    f"{chr(98 + i)}: &{chr(98 + i)} [{', '.join([f'*{chr(97 + i)}'] * 10)}]" for i in range(12)
)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (BOMB, "it holds more than 200,000 values, what aliases stand for included"),
        ("a: &a [*a]", "batch.yml:1: what stands here refers to itself"),
        ("[" * 1000, "nested more deeply"),
        ("a: " + "[" * 60 + "]" * 60, "nested more deeply than 40 levels"),
        ("a: 1\nb: 2\na: 3", "batch.yml:3: the key 'a' stands in line 1, too."),
        ("x: &x {a: 1}\ny:\n  <<: *x", "batch.yml:3: a merge key (<<) is not read"),
        (
            "a: !!python/object/apply:os.system [echo]",
            "batch.yml:1: a tag like 'tag:yaml.org,2002:python/object/apply:os.system' is not read",
        ),
        ("a: !!python/name:os.system x", "batch.yml:1: this is not YAML"),
        ("a: [1", "this is not YAML"),
        ("a: 1\n---\nb: 2", "expected a single document"),
        ("? [a, b]\n: 1", "batch.yml:1: a key must be a text."),
    ],
    ids=["bomb", "loop", "deep", "nested", "twice", "merge", "apply", "name", "cut", "two", "key"],
)
def test_yaml_that_is_not_what_it_should_be_is_refused(text: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        item = parse_items(text, "batch.yml")
        read_config(item.plain())
    assert message in str(caught.value)


def test_aliases_are_followed(tmp_path: Path) -> None:
    config = read("inputs: m\ninput_shapes:\n  a.onnx: &same {x: [1, 2]}\n  b.onnx: *same\n", tmp_path)
    assert config.input_shapes["a.onnx"] == config.input_shapes["b.onnx"] == {"x": (1, 2)}


def test_files_that_are_no_configuration(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"there is no file .*--init nowhere\.yml"):
        read_config(tmp_path / "nowhere.yml")
    (tmp_path / "binary.yml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigError, match="is a folder: name a YAML file"):
        read_config(tmp_path)
    with pytest.raises(ConfigError, match="is not text in UTF-8"):
        read_config(tmp_path / "binary.yml")
    (tmp_path / "large.yml").write_bytes(b"#" * (3 << 20))
    with pytest.raises(ConfigError, match="larger than 1 MiB"):
        read_config(tmp_path / "large.yml")


def test_the_example_says_every_key_and_is_valid(tmp_path: Path) -> None:
    config = read_config(write_example(tmp_path / "new.yml"))
    assert config.jobs == 2 and config.open_sizes == "refuse"
    with pytest.raises(onnxlift.OutputError, match="is there already"):
        write_example(tmp_path / "new.yml")
    assert write_example(tmp_path / "new.yml", force=True).read_text(encoding="utf-8") == EXAMPLE
    commented = [line.removeprefix("# ") for line in EXAMPLE.splitlines() if line.startswith(("# device", "# memory"))]
    assert read("\n".join([EXAMPLE, *commented]), tmp_path).memory == 8_000_000_000


@pytest.mark.parametrize("verb", [verb for verb in VERBS.values() if is_offered(verb)], ids=lambda verb: verb.name)
def test_every_step_has_options_of_its_verb(verb: object) -> None:
    assert isinstance(verb, type(VERBS["lint"]))
    assert parameters(verb)
    assert "source" not in parameters(verb)


def test_only_the_last_change_of_a_model_is_written() -> None:
    steps = [Step(VERBS[name]) for name in ("simplify", "convert", "opset", "lint")]
    assert [is_saved(steps, number) for number in range(4)] == [False, True, True, False]
    steps[2] = Step(VERBS["opset"], save=False)
    assert [is_saved(steps, number) for number in range(4)] == [True, True, False, False]
