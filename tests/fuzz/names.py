"""Names as exporters give them, and as nobody should: the module tree of the lifted source is read from these."""

from __future__ import annotations

import random
from collections.abc import Callable

import onnx

MODULES = "conv1 conv2 bn1 fc attn mlp norm1 proj act layer1 layer2 blocks encoder head down up q k dropout x".split()
CONTAINERS = "layers blocks layer1 stages h".split()
HOSTILE = (
    "class self x forward torch F nn weight bias None True lambda print __init__ training a.b a_b a/b A.B 1 1.2 é "
    "\uff41 _ __class__ state_dict size shape x.1 input len int tuple buffers .weight weight. a..b /Conv // layers.0 "
    "layers.1.x layers.00 y' with;semicolon new\nline {brace} math onnx::MatMul_3 load Model model"
).split(" ")


class Names:
    """Fresh names in one of several styles. `scope` is the path of modules that the next nodes belong to."""

    def __init__(self, choose: random.Random) -> None:
        self.style = choose.choice(["torchscript", "torchscript", "dynamo", "tensorflow", "flat", "none", "hostile"])
        self.choose = choose
        self.scope: list[str] = []
        self.visited: list[list[str]] = [[]]
        self.taken: set[str] = set()
        self.nodes: set[str] = set()

    def wander(self) -> None:
        """Enter a module, leave one, or return to one that was left before (no exporter writes that; optimisers do)."""
        roll = self.choose.random()
        if roll < 0.3 and len(self.scope) < 4:
            self.scope = [*self.scope, self._module()]
        elif roll < 0.55:
            self.scope = self.scope[:-1]
        elif roll < 0.62:
            self.scope = self.choose.choice(self.visited)
        self.visited.append(self.scope)

    def _module(self) -> str:
        if self.choose.random() < 0.4:
            return f"{self.choose.choice(CONTAINERS)}.{self.choose.randrange(3)}"
        return self.choose.choice(MODULES)

    def name_node(self, node: onnx.NodeProto) -> None:
        """Give a node its name and metadata."""
        path = self._slashed()
        styles: dict[str, Callable[[], str]] = {
            "torchscript": lambda: f"{path}/{node.op_type}",
            "tensorflow": lambda: f"model{path}/{node.op_type}",
            "dynamo": lambda: f"node_{node.op_type.lower()}",
            "flat": lambda: f"{node.op_type}_{len(self.taken)}",
            "none": lambda: "",
            "hostile": lambda: self.choose.choice(HOSTILE),
        }
        base = styles[self.style]()
        node.name = _fresh(base, self.nodes) if base else ""
        if self.style == "dynamo" and self.choose.random() < 0.9:
            scopes = ["", *(".".join(self.scope[: i + 1]) for i in range(len(self.scope))), node.name]
            classes = ["m.Net", *(f"m.{part.title().replace('.', '')}" for part in self.scope), "aten.op"]
            node.metadata_props.add(key="pkg.torch.onnx.name_scopes", value=repr(scopes))
            node.metadata_props.add(key="pkg.torch.onnx.class_hierarchy", value=repr(classes))

    def value(self, op_type: str) -> str:
        """The name of what a node of this type gives."""
        styles: dict[str, Callable[[], str]] = {
            "torchscript": lambda: f"{self._slashed()}/{op_type}_output_0",
            "tensorflow": lambda: f"model{self._slashed()}/{op_type}:0",
            "dynamo": lambda: op_type.lower(),
            "flat": lambda: f"{len(self.taken)}",
            "none": lambda: f"t{len(self.taken)}",
            "hostile": lambda: self.choose.choice(HOSTILE),
        }
        return self._fresh_value(styles[self.style]())

    def parameter(self, role: str) -> str:
        """The name of an initialiser that plays a role (weight, bias) in the current module."""
        dotted = ".".join([*self.scope, role])
        styles: dict[str, Callable[[], str]] = {
            "torchscript": lambda: dotted if self.choose.random() < 0.8 else f"onnx::MatMul_{len(self.taken)}",
            "tensorflow": lambda: f"model{self._slashed()}/{role}:0",
            "dynamo": lambda: dotted,
            "flat": lambda: self.choose.choice([f"W{len(self.taken)}", dotted, f"fc{len(self.taken) % 4}_{role}"]),
            "none": lambda: f"c{len(self.taken)}",
            "hostile": lambda: self.choose.choice([dotted, self.choose.choice(HOSTILE)]),
        }
        return self._fresh_value(styles[self.style]())

    def input(self, base: str) -> str:
        return self._fresh_value(self.choose.choice(HOSTILE) if self.style == "hostile" else base)

    def _slashed(self) -> str:
        return "".join(f"/{part}" for part in self.scope)

    def _fresh_value(self, base: str) -> str:
        return _fresh(base, self.taken)


def _fresh(base: str, taken: set[str]) -> str:
    name, number = base, 0
    while name in taken or not name:
        number += 1
        name = f"{base}_{number}"
    taken.add(name)
    return name
