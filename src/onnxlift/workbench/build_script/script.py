"""The whole script: imports, weights, declarations, functions, modules, and `build_model`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import onnx
import onnx_ir as ir

from onnxlift.build.state import DEFAULT_OPSETS, MICROSOFT, ML, TRAINING
from onnxlift.ir.graph.interface import interface_of
from onnxlift.ir.graph.walk import all_nodes, opset_of, regions
from onnxlift.lifting.code.identifiers import identifier, plain, unique
from onnxlift.lifting.text.file import format_source

from .blocks import Block, settle, tree
from .calls import Calls, standard_signature
from .code import INDENT_TEXT, Statement
from .constants import Constants
from .customs import Customs
from .functions import function_lines, in_order
from .gate import TAIL, WEIGHTS, check_script
from .graphs import Callees, Reader
from .literals import argument_text, quoted, type_text, typed_text
from .names import RESERVED, Names
from .paths import path_of
from .weights import WeightStore
from .writer import Body, Writer


@dataclass(frozen=True)
class Script:
    """The text of a script, and the tensors of the file beside it."""

    source: str
    tensors: Mapping[str, ir.TensorProtocol]
    texts: Mapping[str, str]
    functions: int
    """The number of Python functions in it, for modules and functions of the model."""


class Scripting:
    """Writes the script of one model, whose types have been inferred."""

    def __init__(self, model: ir.Model, title: str) -> None:
        self.model, self.title = model, title
        self.constants = Constants()
        self.taken = set(RESERVED)
        self.customs = Customs(self.taken)
        graph = model.graph
        self.store = WeightStore({value.name or "" for value in (*graph.inputs, *graph.outputs)})
        self._note()
        self.functions: list[str] = []
        names: dict[ir.Function, str] = {}
        self._ordered = list(in_order(model.functions))
        for function in self._ordered:
            names[function] = unique(identifier(function.name, "function"), self.taken)
            self.taken.add(names[function])
        self.callees = Callees(names, model.functions, self.customs)

    def _note(self) -> None:
        """Look at all nodes: which constants must stay, and which operators have to be declared."""
        for region in regions(self.model):
            for node in region.graph:
                if region.function is None:
                    self.constants.note(node)
                version = opset_of(node, region.opsets)
                if standard_signature(node, version) is None and node.op_identifier() not in self.model.functions:
                    self.customs.note(node, version)

    def script(self, types: Mapping[str, onnx.TypeProto]) -> Script:
        """Return the script. `types` are those of inputs and outputs that the builder would not declare by itself."""
        graph = self.model.graph
        calls = Calls(self.constants, self.store.add, types_known=True)
        statements, kept = Reader(calls, self.model.opset_imports, self.callees).statements(graph)
        results = [*graph.outputs, *kept]
        self.root = tree(statements, results, self._is_weight)
        self._name_weights(statements, results)
        writer = Writer(self.weight_text, self.constants, self.taken)
        settle(self.root, self.owner, self._relative)
        functions: list[str] = []
        least = self._least_inputs()
        for function in self._ordered:
            functions += function_lines(
                function,
                self.callees.functions[function],
                self.model,
                self.callees,
                writer,
                self.store,
                least.get(function, len(function.inputs)),
            )
        modules = writer.module_functions(self.root)
        main = self._main(writer, kept, types)
        body = "\n".join([*self.customs.lines(), *functions, *modules, "", "", *main])
        text = format_source("\n".join([*self._head(body), body, "", "", TAIL, ""]))
        check_script(text)
        return Script(
            text, dict(self.store.tensors), dict(self.store.texts), len(writer.done.names) + len(self._ordered)
        )

    # weights

    def _is_weight(self, value: ir.Value) -> bool:
        return self.constants.is_constant(value) and not self.constants.is_inline(value)

    def _name_weights(self, statements: list[Statement], results: list[ir.Value]) -> None:
        """Find the module that holds each weight: the smallest one around all that read it. Then name the weights."""
        first: dict[ir.Value, int] = {}
        last: dict[ir.Value, int] = {}
        for index, statement in enumerate(statements):
            for value in statement.reads():
                if self._is_weight(value):
                    first.setdefault(value, index)
                    last[value] = index
        for value in results:
            if self._is_weight(value):
                first[value], last[value] = 0, len(statements)
        self.owner: dict[ir.Value, Block] = {}
        for value in first:
            self.owner[value] = self._around(first[value], last[value])
        for value, owner in self.owner.items():
            tensor = self.constants.tensor(value)
            assert tensor is not None
            index = first[value]
            node = statements[index].node if index < len(statements) else None
            path = path_of(node) if node is not None and owner is not self.root else ""
            if value.is_graph_output():
                self.store.keys[value] = value.name or ""
                self.store.tensors[value.name or ""] = tensor
            else:
                self.store.name(value, tensor, owner.path, path)

    def _around(self, first: int, last: int) -> Block:
        block = self.root
        while True:
            inner = [
                each for each in block.items if isinstance(each, Block) and each.begin <= first and last < each.end
            ]
            if not inner:
                return block
            block = inner[0]

    def _relative(self, block: Block, value: ir.Value) -> str | None:
        """Return the name of a weight within a module, if the module or one around what reads it holds it."""
        owner = self.owner.get(value)
        if owner is None or not (block.begin <= owner.begin and owner.end <= block.end) or owner is self.root:
            return None
        return self.store.keys[value].removeprefix(f"{block.path}.")

    def weight_text(self, value: ir.Value, block: Block | None) -> str | None:
        """Return a weight as it is read in a module; None if the module does not hold it."""
        if value not in self.store.keys:
            return None
        if block is None or block is self.root:
            return f"weights[{quoted(self.store.keys[value])}]"
        name = self._relative(block, value)
        return None if name is None else f"weights({quoted(name)})"

    # the parts of the text

    def _head(self, body: str) -> list[str]:
        graph = self.model.graph
        count = f"{len(graph):,} node{'' if len(graph) == 1 else 's'}"
        lines = [f'"""{plain(self.title)}, {count}, written for onnxlift.build.', ""]
        lines += ["Run it to write the model, or import `build_model` from it.", '"""', ""]
        lines += ["from pathlib import Path", ""]
        lines += ["import numpy as np", ""] if "np." in body else []
        lines += ["from onnxlift import build"]
        lines += ["from onnxlift.build import op", ""] if "op." in body else [""]
        if self.store.tensors:
            lines += [WEIGHTS, ""]
        return lines

    def _main(self, writer: Writer, kept: list[ir.Value], types: Mapping[str, onnx.TypeProto]) -> list[str]:
        graph = self.model.graph
        names = Names(self.taken)
        inputs: list[str] = []
        for value in graph.inputs:
            name = names.take(value, _variable(value.name or "", "x"), -1, 10**9)
            inputs.append(f"{name} = {self._input(value)}")
        entering = [names.of[value] for value in graph.inputs]
        body = Body(writer, self.root, names, self.constants)
        lines = body.lines(self.root.items, [*graph.outputs, *kept, *graph.inputs], returns=False)
        texts = [self._output_text(value, body) for value in graph.outputs]
        outputs = [f"{quoted(value.name or '')}: {text}" for value, text in zip(graph.outputs, texts, strict=True)]
        arguments = [f"[{', '.join(entering)}]", f"{{{', '.join(outputs)}}}"]
        arguments += self._said(types)
        if kept:
            arguments.append(f"kept=[{', '.join(map(body.text, kept))}]")
        last = f"return build.model({', '.join(arguments)})"
        inner = [*inputs, *lines, last]
        text = [f"{INDENT_TEXT}{self._opsets()}", *(f"{INDENT_TEXT * 2}{line}" if line else line for line in inner)]
        return ["def build_model() -> build.Model:", f'{INDENT_TEXT}"""Return the model."""', *text]

    def _output_text(self, value: ir.Value, body: Body) -> str:
        tensor = self.constants.tensor(value)
        if tensor is not None and self.constants.is_inline(value):
            return f"build.constant({typed_text(tensor)}, name={quoted(value.name or '')})"
        return body.text(value)

    def _input(self, value: ir.Value) -> str:
        interface = interface_of(self.model)
        name = value.name or ""
        type_ = interface.types.get(name, onnx.TypeProto())
        text = argument_text(type_) if type_.WhichOneof("value") else "None"
        default = interface.defaults.get(name)
        more = ""
        if default is not None:
            key = self.store.add(f"{name}.default", default) if default.size > 4 else ""
            more = f", default={f'weights.tensor({quoted(key)})' if key else typed_text(default)}"
        return f"build.input({quoted(name)}, {text}{more})"

    def _opsets(self) -> str:
        model = self.model
        nicknames = {MICROSOFT: "microsoft", ML: "ml", TRAINING: "training"}
        arguments = [str(model.opset_imports[""])] if "" in model.opset_imports else []
        others: list[str] = []
        for domain, version in model.opset_imports.items():
            if domain in nicknames and version != DEFAULT_OPSETS.get(domain):
                arguments.append(f"{nicknames[domain]}={version}")
            elif domain and domain not in nicknames and version != DEFAULT_OPSETS.get(domain):
                others.append(f"{quoted(domain)}: {version}")
        if others:
            arguments.append(f"domains={{{', '.join(others)}}}")
        return f"with build.opset({', '.join(arguments)}):"

    def _said(self, types: Mapping[str, onnx.TypeProto]) -> list[str]:
        """Return what the file tells of itself, as arguments of build.model."""
        model, graph = self.model, self.model.graph
        found = [f"ir_version={model.ir_version}"]
        found += [f"name={quoted(graph.name)}"] if graph.name and graph.name != "model" else []
        found += [f"doc={self.store.text('doc', graph.doc_string)}"] if graph.doc_string else []
        found += [f"metadata={self._texts(model.metadata_props)}"] if model.metadata_props else []
        read = {value for node in all_nodes(graph) for value in node.inputs} | set(graph.outputs)
        if any(value not in read for value in graph.inputs):
            found.append("unused_inputs=True")
        if types:
            texts = ", ".join(f"{quoted(name)}: {type_text(each)}" for name, each in types.items())
            found.append(f"types={{{texts}}}")
        header = self._header()
        return [*found, *([f"header=build.Header({', '.join(header)})"] if header else [])]

    def _header(self) -> list[str]:
        model = self.model
        found: list[str] = []
        if model.producer_name != "onnxlift":
            found.append(f"producer={quoted(model.producer_name or '')}")
        for name, text in (
            ("producer_version", model.producer_version),
            ("domain", model.domain),
            ("doc", model.doc_string),
        ):
            found += [f"{name}={self.store.text(f'header.{name}', text)}"] if text else []
        found += [f"version={model.model_version}"] if model.model_version else []
        if model.graph.metadata_props:
            found.append(f"graph_metadata={self._texts(model.graph.metadata_props)}")
        used = {node.domain for region in regions(model) if region.function is None for node in region.graph}
        others = {domain: version for domain, version in model.opset_imports.items() if domain not in used}
        if others or "" not in model.opset_imports:
            found.append(f"imports={{{', '.join(f'{quoted(key)}: {value}' for key, value in others.items())}}}")
        return found

    def _texts(self, props: Mapping[str, str]) -> str:
        return f"{{{', '.join(f'{quoted(key)}: {self.store.text(key, value)}' for key, value in props.items())}}}"

    def _least_inputs(self) -> dict[ir.Function, int]:
        """Return how many inputs every call of a function gives."""
        found: dict[ir.Function, int] = {}
        for region in regions(self.model):
            for node in region.graph:
                function = self.model.functions.get(node.op_identifier())
                if function is not None:
                    count = len(node.inputs)
                    found[function] = min(found.get(function, count), count)
        return found


def _variable(name: str, default: str) -> str:
    return identifier(name.rpartition("/")[2] if not name.endswith("/") else name, default)
