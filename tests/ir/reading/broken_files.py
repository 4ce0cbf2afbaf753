"""Files that are not models, or that mean harm. One row each: what it is called, how it is made, what must be said.

`build(folder)` writes what it needs into a fresh folder, and returns the path that a user would pass.
"""

from __future__ import annotations

import os
import pickle
import random
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper, parser


@dataclass(frozen=True)
class BrokenFile:
    name: str
    build: Callable[[Path], Path]
    says: str
    """A fragment of the message."""


TABLE: list[BrokenFile] = []


def row(says: str) -> Callable[[Callable[[Path], object]], None]:
    """Add a row. The function returns bytes or a ModelProto for `model.onnx`, or the path if it wrote that itself."""

    def add(make: Callable[[Path], object]) -> None:
        def build(folder: Path) -> Path:
            made = make(folder)
            if isinstance(made, Path):
                return made
            path = folder / "model.onnx"
            path.write_bytes(made.SerializeToString() if isinstance(made, onnx.ModelProto) else made)
            return path

        TABLE.append(BrokenFile(make.__name__, build, says))

    return add


def model(body: str = "y = Relu(x)", more: str = "", imports: str = '"" : 17, "me" : 1') -> onnx.ModelProto:
    """A model from x to y in ONNX's text format."""
    return parser.parse_model(
        f"<ir_version: 9, opset_import: [{imports}]> g (float[n, 4] x) => (float[n, 4] y) {{ {body} }} {more}"
    )


def branches(then: str, otherwise: str) -> str:
    """Nodes that compute r as either t or e."""
    return (
        "c = Constant<value = bool {1}>() r = If(c) <"
        f"then_branch = a () => (float[n] t) {{ {then} }}, else_branch = b () => (float[n] e) {{ {otherwise} }}> "
    )


def with_weight(**fields: object) -> onnx.ModelProto:
    """A model whose initialiser `w` has these fields."""
    proto = model("y = Add(x, w)")
    proto.graph.initializer.append(TensorProto(name="w", data_type=TensorProto.FLOAT, **fields))
    return proto


def external(tensor: TensorProto, location: str | os.PathLike[str], **entries: object) -> TensorProto:
    """Make `tensor` an external one."""
    tensor.data_location = TensorProto.EXTERNAL
    tensor.ClearField("raw_data")
    for key, value in {"location": location, **entries}.items():
        tensor.external_data.add(key=key, value=str(value))
    return tensor


def with_external(location: str | os.PathLike[str], **entries: object) -> onnx.ModelProto:
    proto = with_weight(dims=[4])
    external(proto.graph.initializer[0], location, **entries)
    return proto


# What people pass by mistake


@row("it is empty")
def empty(folder: Path) -> bytes:
    return b""


@row("cannot read")
def missing(folder: Path) -> Path:
    return folder / "nothing.onnx"


@row("is a folder")
def a_folder(folder: Path) -> Path:
    return folder


@row("is a pipe or device")
def a_pipe(folder: Path) -> Path:
    os.mkfifo(folder / "model.onnx")
    return folder / "model.onnx"


@row("text file")
def text(folder: Path) -> bytes:
    return "Das Modell wäre schön.\n".encode() * 100


@row("HTML")
def html(folder: Path) -> bytes:
    return b"\n<!DOCTYPE html><html><body>404 Not Found</body></html>"


@row("git lfs pull")
def git_lfs_pointer(folder: Path) -> bytes:
    return b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a2146\nsize 12345\n"


@row("zip archive")
def zip_archive(folder: Path) -> Path:
    with zipfile.ZipFile(folder / "model.zip", "w") as archive:
        archive.writestr("readme.txt", "hello")
    return folder / "model.zip"


@row("PyTorch checkpoint")
def pytorch_checkpoint(folder: Path) -> Path:
    with zipfile.ZipFile(folder / "model.pt", "w") as archive:
        archive.writestr("model/data.pkl", pickle.dumps({"a": 1}))
    return folder / "model.pt"


@row("Python pickle")
def old_pytorch_checkpoint(folder: Path) -> bytes:
    return pickle.dumps({"weight": [1.5, 2.5]}, protocol=2)


@row("safetensors")
def safetensors(folder: Path) -> bytes:
    header = b'{"w":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}'
    return len(header).to_bytes(8, "little") + header + b"\x00\x00\x80\x3f"


@row("TensorFlow Lite")
def tflite(folder: Path) -> bytes:
    return b"\x1c\x00\x00\x00TFL3" + bytes(range(100))


@row("not an ONNX model")
def noise(folder: Path) -> bytes:
    return random.Random(3).randbytes(5000)


@row("truncated")
def truncated(folder: Path) -> bytes:
    data = with_weight(dims=[3, 4], raw_data=random.Random(1).randbytes(48)).SerializeToString()
    return data[:-20]


@row("truncated")
def truncated_in_a_large_weight(folder: Path) -> bytes:
    data = with_weight(dims=[3000, 4], raw_data=random.Random(1).randbytes(48000)).SerializeToString()
    return data[:20000]


@row("holds no graph")
def no_graph(folder: Path) -> onnx.ModelProto:
    return onnx.ModelProto(ir_version=9)


# Versions


@row("older than onnxlift reads")
def old_ir_version(folder: Path) -> onnx.ModelProto:
    proto = model()
    proto.ir_version = 2
    return proto


@row("Update the onnx package")
def new_ir_version(folder: Path) -> onnx.ModelProto:
    proto = model()
    proto.ir_version = onnx.IR_VERSION + 1
    return proto


@row("knows 1 to")
def new_opset(folder: Path) -> onnx.ModelProto:
    return model(imports='"" : 999')


@row("imports its opset 0")
def opset_zero(folder: Path) -> onnx.ModelProto:
    return model(imports='"" : 0')


@row("imports no opset")
def no_opset(folder: Path) -> onnx.ModelProto:
    return model(imports='"me" : 1')


@row("are both imported")
def two_opsets(folder: Path) -> onnx.ModelProto:
    return model(imports='"" : 17, "ai.onnx" : 18')


# Graphs


@row("node 'late' (Add): it reads value 'nobody'")
def undefined_value(folder: Path) -> onnx.ModelProto:
    return model("[late] y = Add(x, nobody)")


@row("reads value 't'")
def value_of_another_branch(folder: Path) -> onnx.ModelProto:
    return model(branches("t = Neg(x)", "e = Abs(t)") + "y = Neg(r)")


@row("defines value 'a', which is already defined")
def value_defined_twice(folder: Path) -> onnx.ModelProto:
    return model("a = Relu(x) a = Neg(x) y = Add(a, a)")


@row("defines value 'x', which is already defined")
def input_redefined(folder: Path) -> onnx.ModelProto:
    return model("x = Relu(x) y = Neg(x)")


@row("two inputs named 'x'")
def input_twice(folder: Path) -> onnx.ModelProto:
    proto = model()
    proto.graph.input.append(proto.graph.input[0])
    return proto


@row("two initialisers named 'w'")
def initialiser_twice(folder: Path) -> onnx.ModelProto:
    proto = with_weight(dims=[1], float_data=[2.5])
    proto.graph.initializer.append(proto.graph.initializer[0])
    return proto


@row("initialiser without a name")
def nameless_initialiser(folder: Path) -> onnx.ModelProto:
    proto = model()
    proto.graph.initializer.append(numpy_helper.from_array(np.arange(3.0)))
    return proto


@row("graph 'g': its output 'z' is produced by no node")
def output_of_nobody(folder: Path) -> onnx.ModelProto:
    proto = model()
    proto.graph.output[0].name = "z"
    return proto


@row("in a circle, so that none can run first: 'three' -> 'two' -> 'three'")
def cycle(folder: Path) -> onnx.ModelProto:
    return model("[one] a = Neg(x) [two] b = Add(a, c) [three] c = Abs(b) [four] y = Neg(c)")


@row("in a circle")
def cycle_through_a_subgraph(folder: Path) -> onnx.ModelProto:
    return model(branches("t = Neg(z)", "e = Abs(x)") + "z = Neg(r) y = Neg(z)")


@row("... (100,000 characters)")
def endless_name(folder: Path) -> onnx.ModelProto:
    return model(f"y = Add(x, {'v' * 100_000})")


@row(r"'\x1b[31m\nRelu'")
def operator_that_paints_the_terminal(folder: Path) -> onnx.ModelProto:
    proto = model("y = Relu(nobody)")
    proto.graph.node[0].op_type = "\x1b[31m\nRelu"
    return proto


@row("names no operator")
def no_operator(folder: Path) -> onnx.ModelProto:
    proto = model()
    proto.graph.node[0].op_type = ""
    return proto


@row("node number 0 (Relu): its attribute 'k' is of a type")
def untyped_attribute(folder: Path) -> onnx.ModelProto:
    proto = model()
    proto.graph.node[0].attribute.add(name="k", i=3)
    return proto


@row("node number 0 (Relu): its attribute 'k' is of a type")
def unknown_attribute_type(folder: Path) -> bytes:
    proto = model()
    proto.graph.node[0].attribute.add(name="k", i=3, type=onnx.AttributeProto.INT)
    known = b"\xa0\x01\x02"  # field 20 (type) is INT
    data = proto.SerializeToString()
    assert data.count(known) == 1
    return data.replace(known, b"\xa0\x01\x63")


@row("two attributes 'axis'")
def attribute_twice(folder: Path) -> onnx.ModelProto:
    proto = model("y = Softmax<axis = 1>(x)")
    proto.graph.node[0].attribute.append(proto.graph.node[0].attribute[0])
    return proto


@row("is not inside one")
def reference_outside_a_function(folder: Path) -> onnx.ModelProto:
    proto = model()
    proto.graph.node[0].attribute.add(name="k", ref_attr_name="k", type=onnx.AttributeProto.INT)
    return proto


@row("not valid UTF-8")
def name_that_is_not_utf8(folder: Path) -> bytes:
    return model("abcdef = Relu(x) y = Neg(abcdef)").SerializeToString().replace(b"abcdef", b"abc\xff\xfe\xfd")


@row("element type 77")
def unknown_element_type(folder: Path) -> onnx.ModelProto:
    proto = model()
    proto.graph.input[0].type.tensor_type.elem_type = 77
    return proto


def nested(depth: int) -> bytes:
    """A chain of subgraphs, written by hand: protobuf itself refuses to build or print it."""

    def field(number: int, payload: bytes) -> bytes:
        length, encoded = len(payload), bytearray([number << 3 | 2])
        while length > 127:
            encoded.append(length & 127 | 128)
            length >>= 7
        encoded.append(length)
        return bytes(encoded) + payload

    graph = b""
    for _ in range(depth):
        attribute = field(1, b"body") + field(6, graph) + b"\xa0\x01\x05"  # name, g, type = GRAPH
        graph = field(1, field(4, b"Loop") + field(5, attribute))
    return b"\x08\x09" + field(7, graph) + field(8, b"\x10\x11")


@row("nested more than 32 deep")
def nested_33_deep(folder: Path) -> bytes:
    return nested(33)


@row("nested too deeply")
def nested_10000_deep(folder: Path) -> bytes:
    return nested(10_000)


# Functions


@row("me::F -> me::G -> me::F")
def recursive_functions(folder: Path) -> onnx.ModelProto:
    functions = '<domain: "me", opset_import: ["me" : 1]> F (a) => (b) { b = me.G(a) }' + (
        '<domain: "me", opset_import: ["me" : 1]> G (a) => (b) { b = me.F(a) }'
    )
    return model("y = me.F(x)", functions)


def chain(length: int, calls: int) -> onnx.ModelProto:
    """Functions that each call the next one `calls` times."""
    texts = []
    for i in range(length):
        callee = f"me.F{i + 1}" if i + 1 < length else "Neg"
        body = " ".join(f"v{k + 1} = {callee}(v{k})" for k in range(calls))
        texts.append(f'<domain: "me", opset_import: ["" : 17, "me" : 1]> F{i} (v0) => (v{calls}) {{ {body} }}')
    return model("y = me.F0(x)", " ".join(texts))


@row("1,000,000,000,000 nodes")
def functions_that_explode(folder: Path) -> onnx.ModelProto:
    return chain(12, 10)


@row("calls of functions are nested")
def long_chain_of_functions(folder: Path) -> onnx.ModelProto:
    return chain(500, 1)


@row("defined twice")
def function_twice(folder: Path) -> onnx.ModelProto:
    proto = chain(1, 1)
    proto.functions.append(proto.functions[0])
    return proto


@row("of which function me::F0 imports no opset")
def function_without_opset(folder: Path) -> onnx.ModelProto:
    proto = chain(1, 1)
    del proto.functions[0].opset_import[:]
    return proto


# Tensors


@row("negative size")
def negative_size(folder: Path) -> onnx.ModelProto:
    return with_weight(dims=[-1, 4])


@row("larger than any memory")
def sizes_that_overflow(folder: Path) -> onnx.ModelProto:
    return with_weight(dims=[1 << 40, 1 << 40])


@row("larger than any memory")
def empty_and_yet_too_large(folder: Path) -> onnx.ModelProto:
    return with_weight(dims=[0, 1 << 62])


@row("300,000 dimensions")
def many_dimensions(folder: Path) -> onnx.ModelProto:
    return with_weight(dims=[1 << 62] * 300_000)


@row("needs 2,000,000,000,000 entries in float_data, and the model holds 0")
def weight_without_data(folder: Path) -> onnx.ModelProto:
    return with_weight(dims=[2_000_000, 1_000_000])


@row("tensor 'w' of type FLOAT and shape [3, 4] needs 48 bytes, and the model holds 44")
def weight_too_short(folder: Path) -> onnx.ModelProto:
    return with_weight(dims=[3, 4], raw_data=bytes(44))


@row("needs 16,000 bytes, and the model holds 16,004")
def large_weight_too_long(folder: Path) -> onnx.ModelProto:
    return with_weight(dims=[4000], raw_data=bytes(16004))


@row("tensor 'w' of type FLOAT holds data in other fields than float_data")
def data_in_the_wrong_field(folder: Path) -> onnx.ModelProto:
    return with_weight(dims=[3], int32_data=[1, 2, 3])


@row("tensor 'w' of type FLOAT holds data in other fields than raw_data")
def data_in_two_fields(folder: Path) -> onnx.ModelProto:
    return with_weight(dims=[2], raw_data=bytes(8), int64_data=[1, 2])


@row("data type 99")
def unknown_data_type(folder: Path) -> onnx.ModelProto:
    proto = with_weight(dims=[1], raw_data=bytes(4))
    proto.graph.initializer[0].data_type = 99
    return proto


@row("strings as raw bytes")
def raw_strings(folder: Path) -> onnx.ModelProto:
    proto = with_weight(dims=[1], raw_data=b"abcd")
    proto.graph.initializer[0].data_type = TensorProto.STRING
    return proto


def with_sparse(index: int, size: int) -> onnx.ModelProto:
    proto = model("y = Add(x, s)")
    values = numpy_helper.from_array(np.array([2.5], np.float32), "s")
    proto.graph.sparse_initializer.append(
        helper.make_sparse_tensor(values, numpy_helper.from_array(np.array([index])), [size])
    )
    return proto


@row("Store it dense")
def huge_sparse_tensor(folder: Path) -> onnx.ModelProto:
    return with_sparse(1, 1 << 40)


@row("index outside its shape [4]")
def sparse_index_outside(folder: Path) -> onnx.ModelProto:
    return with_sparse(4, 4)


# External data


@row("cannot read")
def external_missing(folder: Path) -> onnx.ModelProto:
    return with_external("w.bin")


@row("absolute path")
def external_absolute(folder: Path) -> onnx.ModelProto:
    (folder / "w.bin").write_bytes(bytes(16))
    return with_external(folder / "w.bin")


def below(folder: Path, proto: onnx.ModelProto) -> Path:
    """The model in a folder of its own, beside a secret."""
    (folder / "secret.bin").write_bytes(bytes(range(16)))
    (folder / "inner").mkdir(exist_ok=True)
    (folder / "inner" / "model.onnx").write_bytes(proto.SerializeToString())
    return folder / "inner" / "model.onnx"


@row("outside the model's folder")
def external_above(folder: Path) -> Path:
    return below(folder, with_external("../secret.bin"))


@row("outside the model's folder")
def external_above_that_is_missing(folder: Path) -> Path:
    return below(folder, with_external("../nothing.bin"))


@row("outside the model's folder")
def external_symlink_out(folder: Path) -> Path:
    path = below(folder, with_external("w.bin"))
    (path.parent / "w.bin").symlink_to("../secret.bin")
    return path


@row("outside the model's folder")
def external_through_a_folder_symlink(folder: Path) -> Path:
    path = below(folder, with_external("up/secret.bin"))
    (path.parent / "up").symlink_to("..")
    return path


@row("hard link")
def external_hard_link(folder: Path) -> Path:
    path = below(folder, with_external("w.bin"))
    (path.parent / "w.bin").hardlink_to(folder / "secret.bin")
    return path


@row("outside the model's folder")
def external_symlink_loop(folder: Path) -> onnx.ModelProto:
    (folder / "w.bin").symlink_to("v.bin")
    (folder / "v.bin").symlink_to("w.bin")
    return with_external("w.bin")


@row("pipe or device")
def external_pipe(folder: Path) -> onnx.ModelProto:
    os.mkfifo(folder / "w.bin")
    return with_external("w.bin")


@row("is a folder")
def external_folder(folder: Path) -> onnx.ModelProto:
    (folder / "w.bin").mkdir()
    return with_external("w.bin")


@row("location is not a path")
def external_without_location(folder: Path) -> onnx.ModelProto:
    return with_external("")


@row("location is not a path")
def external_with_an_endless_name(folder: Path) -> onnx.ModelProto:
    return with_external("w" * 5000)


@row("bytes 8 to 24 are wanted, and the file has 16")
def external_beyond_the_end(folder: Path) -> onnx.ModelProto:
    (folder / "w.bin").write_bytes(bytes(16))
    return with_external("w.bin", offset=8)


@row("its offset is '-8'")
def external_negative_offset(folder: Path) -> onnx.ModelProto:
    (folder / "w.bin").write_bytes(bytes(64))
    return with_external("w.bin", offset=-8)


@row("its length is '1_6'")
def external_odd_length(folder: Path) -> onnx.ModelProto:
    (folder / "w.bin").write_bytes(bytes(64))
    return with_external("w.bin", length="1_6")


@row("needs 16 bytes, and the model holds 12")
def external_short_length(folder: Path) -> onnx.ModelProto:
    (folder / "w.bin").write_bytes(bytes(64))
    return with_external("w.bin", length=12)


@row("outside the model's folder")
def external_in_a_constant(folder: Path) -> Path:
    proto = model("c = Constant<value = float[4] {1, 2, 3, 4}>() y = Add(x, c)")
    external(proto.graph.node[0].attribute[0].t, "../secret.bin")
    return below(folder, proto)


@row("outside the model's folder")
def external_in_a_function(folder: Path) -> Path:
    proto = model(
        "y = me.F(x)",
        '<domain: "me", opset_import: ["" : 17]> '
        "F (a) => (b) { c = Constant<value = float[4] {1, 2, 3, 4}>() b = Add(a, c) }",
    )
    external(proto.functions[0].node[0].attribute[0].t, "../secret.bin")
    return below(folder, proto)


@row("outside the model's folder")
def external_in_a_subgraph(folder: Path) -> Path:
    proto = model(branches("t = Neg(x)", "e = Abs(x)") + "y = Neg(r)")
    graph = proto.graph.node[1].attribute[0].g
    external(graph.initializer.add(name="w", data_type=TensorProto.FLOAT, dims=[4]), "../secret.bin")
    return below(folder, proto)
