"""How much of a torch module comes back when its export is lifted: the numbers of `benchmarks/fidelity.py`.

How things are counted:
- A parameter is *recovered* if the lifted module has one of the same name, shape and values; one that has several
  names (tied ones) if it has any of these. It is *folded* if no tensor of the exported file has its values any more,
  each as often (a batch norm multiplied into a convolution, a table of which rows were looked up), or only one that the
  exporter gave another number of axes, where its name is nowhere in the file (DeBERTa's relative embeddings, of which
  the older exporter leaves `onnx::MatMul_1740` with a batch of one): nobody can recover it, and it does not count.
- *Gradients* are those of the original with embeddings that train their padding, too: ONNX does not know the padding.
- The *paths* are those of all submodules that hold a parameter, themselves or below. Activations and dropouts are code.
- The *fixed point*: the file of the round trip lifts to the same source (see `models/round_trip.py`).
- *Lines* are lines of code in classes, formatted alike: no blank line, comment or docstring, no imports, no `load` and
  what it calls. For
  the original they are those of the classes of its modules and their bases, torch's and transformers' general ones
  aside; functions beside these classes are not counted, while kernels of ours are.
"""

from __future__ import annotations

import ast
import copy
import importlib.util
import inspect
import io
import textwrap
import tokenize
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from pathlib import Path

import numpy as np
import onnx
import onnx.numpy_helper
import torch
from torch import Tensor, nn
from torch.export import Dim

import onnxlift
from models import Inputs
from models.network import Network
from models.round_trip import differences, export_again, free_sizes
from models.running import assert_close, run_onnxruntime, run_torch
from onnxlift.lifting.text.file import format_source

OK = "ok"
QUICK_CHECKS = ("numbers", "gradients")
CHECKS = (*QUICK_CHECKS, "compile", "round trip", "fixed point", "export")
"""The export comes last: once torch.export has been called, recurrent layers can't be exported to ONNX. The fixed point
is that of the round trip's file."""
AGAIN = "again.onnx"
LONGEST_MESSAGE = 160
SHOWN_LINES = 6


@dataclass
class Fidelity:
    """What came back of one exported module. Checks are "ok", or say what went wrong."""

    parameters: int = 0
    missing: list[str] = field(default_factory=list)
    folded: list[str] = field(default_factory=list)
    extra: list[str] = field(default_factory=list)
    """Entries of the state dict that the original does not have."""
    paths: int = 0
    missing_paths: list[str] = field(default_factory=list)
    lines: int = 0
    original_lines: int = 0
    classes: int = 0
    original_classes: int = 0
    longest_forward: int = 0
    checks: dict[str, str] = field(default_factory=dict)
    different: list[str] = field(default_factory=list)
    """Lines of the source that lifting the round trip's file does not give, and those that it gives instead."""

    @property
    def recovered(self) -> float:
        return 1 - len(self.missing) / max(1, self.parameters)

    @property
    def recovered_paths(self) -> float:
        return 1 - len(self.missing_paths) / max(1, self.paths)

    @property
    def shortfalls(self) -> list[str]:
        """The targets that are missed, in words."""
        return [
            *[f"{name}: {outcome}" for name, outcome in self.checks.items() if outcome != OK],
            *self.different[:SHOWN_LINES],
            *([f"parameters missing: {_listing(self.missing)}"] if self.missing else []),
            *([f"not in the original: {_listing(self.extra)}"] if self.extra and not self.folded else []),
            *([f"paths missing: {_listing(self.missing_paths)}"] if self.recovered_paths < 0.95 else []),
            *([f"{self.lines} lines, the original has {self.original_lines}"] * (self.lines > self.original_lines)),
            *([f"a forward of {self.longest_forward} lines"] if self.longest_forward >= 60 else []),
        ]


def measure(
    network: Network, path: Path, round_trip: Callable[[Path], Path] | None = None, checks: Sequence[str] = CHECKS
) -> Fidelity:
    """What lifting the file at `path` gives back of the network that was exported to it. `round_trip` is given a folder
    with the saved result, and returns the path of what torch exports that to."""
    original = network.module()
    lifted = onnxlift.lift(path, name=network.name)
    found = Fidelity()
    _measure_source(found, lifted.source, original)
    module = lifted.module()
    _measure_tree(found, module, original, path)
    samples = network.samples()
    expected = run_onnxruntime(path, samples)

    def numbers() -> None:
        for inputs, outputs in zip(samples, expected, strict=True):
            assert_close(run_torch(module, inputs), outputs)

    def compiles() -> None:
        torch.compiler.reset()
        with torch._dynamo.config.patch(allow_rnn=True):
            compiled = torch.compile(module, fullgraph=True, backend="eager")
            assert_close(run_torch(compiled, samples[1]), expected[1])

    def exports() -> None:
        free = (dict.fromkeys(axes, Dim.DYNAMIC) for axes in free_sizes(path, network.recurrent))
        program = torch.export.export(module, tuple(_tensors(samples[1])), dynamic_shapes=tuple(free))
        others = samples[1:2] if network.recurrent else samples[1:]
        for inputs, outputs in zip(others, expected[1:], strict=False):
            assert_close(run_torch(program.module(), inputs), outputs)

    folder = path.with_suffix(".lifted")

    def returns() -> None:
        assert round_trip is not None
        (folder / AGAIN).unlink(missing_ok=True)
        lifted.save(folder, force=True)
        others = samples[1:2] if network.recurrent else samples[1:]
        for again, outputs in zip(run_onnxruntime(round_trip(folder), others), expected[1:], strict=False):
            assert_close(again, outputs)

    def stays() -> None:
        found.different = differences(path, folder / AGAIN, network.name)
        assert not found.different, f"{len(found.different)} lines differ"

    def gradients() -> None:
        for layer in original.modules():
            if isinstance(layer, nn.Embedding):
                layer.padding_idx = None
        unknown = {*found.missing, *found.folded}
        try:
            _compare_gradients(module, original, samples[1], unknown)
        except AssertionError:
            # A ReLU so near to zero that float32's rounding, which depends on the processor, decides on the side that
            # it is on has two gradients. With float64 there is one.
            doubled = {name: x.astype(np.float64) if x.dtype == np.float32 else x for name, x in samples[1].items()}
            _compare_gradients(*(copy.deepcopy(each).double() for each in (module, original)), doubled, unknown)

    functions = dict(zip(CHECKS, (numbers, gradients, compiles, returns, stays, exports), strict=True))
    found.checks = {name: _outcome(functions[name]) for name in checks}
    return found


def export_saved(network: Network, path: Path, folder: Path) -> Path:
    """The file that torch exports the lifted model to, which was saved in `folder`; `path` is the first export."""
    [file] = folder.glob("*.py")
    spec = importlib.util.spec_from_file_location("saved", file)
    assert spec is not None and spec.loader is not None
    saved = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(saved)
    again = folder / AGAIN
    export_again(saved.load(), tuple(_tensors(network.samples()[1])), free_sizes(path, network.recurrent), again, path)
    return again


def _outcome(check: Callable[[], None]) -> str:
    try:
        check()
    except Exception as error:  # what torch.compile, its exporters and ONNX Runtime raise has no common base
        first = next((line for line in str(error).splitlines() if line.strip()), "")
        return f"{type(error).__name__}: {first.strip()}"[:LONGEST_MESSAGE]
    return OK


def _tensors(inputs: Inputs) -> Iterator[Tensor]:
    return map(torch.from_numpy, inputs.values())


def _compare_gradients(module: nn.Module, original: nn.Module, inputs: Inputs, unknown: Collection[str]) -> None:
    ours, theirs = _gradients(module, inputs), _gradients(original, inputs)
    largest = max(gradient.abs().max().item() for gradient in theirs.values())
    for name, gradient in theirs.items():
        if name in ours and name not in unknown:
            tolerance = 1e-4 * gradient.abs().max().item() + 1e-6 * largest
            torch.testing.assert_close(ours[name], gradient, rtol=1e-3, atol=tolerance, msg=name)


def _gradients(module: nn.Module, inputs: Inputs) -> dict[str, Tensor]:
    """The gradient of a random mixture of the outputs, by the parameter's name."""
    module.zero_grad()
    output = module(*_tensors(inputs))
    mixture = torch.randn(output.shape, generator=torch.Generator().manual_seed(0))
    (output * mixture).sum().backward()
    named = module.named_parameters(remove_duplicate=False)
    return {name: p.grad for name, p in named if p.grad is not None}


# The tree and the parameters


def _measure_tree(found: Fidelity, lifted: nn.Module, original: nn.Module, path: Path) -> None:
    ours, tensors, text = _parameters(lifted), _tensors_of(path), path.read_bytes()
    names: dict[Tensor, list[str]] = {}
    for name, parameter in _parameters(original).items():
        names.setdefault(parameter, []).append(name)
    for parameter, aliases in names.items():
        if any(name in ours and torch.equal(ours[name], parameter) for name in aliases):
            found.parameters += 1
        elif is_there(parameter.detach().numpy(), tensors, any(name.encode() in text for name in aliases)):
            found.parameters += 1
            found.missing.append(aliases[0])
        else:
            found.folded += aliases
    found.extra = sorted(set(lifted.state_dict()) - set(original.state_dict()))
    reached = {name for name, _ in lifted.named_modules(remove_duplicate=False)}
    paths: dict[nn.Module, list[str]] = {}
    for name, module in original.named_modules(remove_duplicate=False):
        if name and any(f"{name}.{parameter}" not in found.folded for parameter in _parameters(module)):
            paths.setdefault(module, []).append(name)
    found.paths = len(paths)
    found.missing_paths = [aliases[0] for aliases in paths.values() if reached.isdisjoint(aliases)]


def _parameters(module: nn.Module) -> dict[str, Tensor]:
    return dict(module.named_parameters(remove_duplicate=False))


@dataclass
class Stored:
    """A weight or constant of the file, and how often it has which number."""

    array: np.ndarray

    def __post_init__(self) -> None:
        self.counts = _counts(self.array)


def _tensors_of(path: Path) -> list[Stored]:
    graph = onnx.load(path).graph
    tensors = [*graph.initializer, *(a.t for node in graph.node for a in node.attribute if a.HasField("t"))]
    arrays = [onnx.numpy_helper.to_array(tensor) for tensor in tensors]
    return [Stored(array) for array in arrays if array.dtype == np.float32]


def _counts(array: np.ndarray) -> dict[float, int]:
    return dict(zip(*(column.tolist() for column in np.unique(array, return_counts=True)), strict=True))


def is_there(parameter: np.ndarray, tensors: Sequence[Stored], is_named: bool) -> bool:
    """Whether a tensor of the file is made of the parameter's values, and perhaps others'; and is not merely the same
    in another number of axes, if nothing says which parameter that was."""
    counts = _counts(parameter)
    holders = [tensor.array for tensor in tensors if counts.items() <= tensor.counts.items()]
    return any(is_named or array.ndim == parameter.ndim or array.size > parameter.size for array in holders)


# The source


def _measure_source(found: Fidelity, source: str, original: nn.Module) -> None:
    tree = ast.parse(source)
    classes = _original_classes(original)
    before_load = takewhile(lambda node: not isinstance(node, ast.Assign), tree.body)
    parts = [n for n in before_load if isinstance(n, ast.ClassDef | ast.FunctionDef) and n.name != "load"]
    found.lines = sum(code_lines(ast.get_source_segment(source, part) or "") for part in parts)
    found.original_lines = sum(code_lines(format_source(textwrap.dedent(inspect.getsource(cls)))) for cls in classes)
    found.classes = sum(isinstance(node, ast.ClassDef) for node in tree.body)
    found.original_classes = len(classes)
    forwards = [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef) and n.name == "forward"]
    found.longest_forward = max((n.end_lineno or 0) - n.lineno + 1 for n in forwards) if forwards else 0


def code_lines(source: str) -> int:
    """Lines that are neither blank nor comment nor docstring."""
    lines: set[int] = set()
    statement: list[tokenize.TokenInfo] = []
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in _LAYOUT:
            statement.append(token)
        elif token.type == tokenize.NEWLINE:
            if any(part.type != tokenize.STRING for part in statement):
                lines.update(number for part in statement for number in range(part.start[0], part.end[0] + 1))
            statement = []
    return len(lines)


_LAYOUT = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER)
_GENERAL = ("torch.", "transformers.modeling_utils", "transformers.modeling_layers", "transformers.generation")


def _original_classes(original: nn.Module) -> list[type]:
    found = {
        base: None for module in original.modules() for base in type(module).__mro__ if issubclass(base, nn.Module)
    }
    return [cls for cls in found if not cls.__module__.startswith(_GENERAL)]


def _listing(names: list[str]) -> str:
    return ", ".join(names[:6]) + (f" and {len(names) - 6} more" if len(names) > 6 else "")
