"""Changes of tensors: sizes, element types, bytes, and the files that they lie in."""

from __future__ import annotations

import random
from math import prod

import numpy as np
import onnx
from onnx import TensorProto, numpy_helper

from . import hostile
from .view import NotApplicableError, View, pick

FIELDS = ("raw_data", "float_data", "int32_data", "int64_data", "string_data", "double_data", "uint64_data")
LOCATIONS = (
    "data.bin",
    "",
    ".",
    "..",
    "/etc/passwd",
    "../data.bin",
    "nothing.bin",
    "/dev/zero",
    "model.onnx",
    "a" * 5000,
)
LARGEST = 100_000


def other_sizes(choose: random.Random, view: View) -> None:
    pick(choose, view.tensors).dims[:] = hostile.sizes(choose)


def other_size(choose: random.Random, view: View) -> None:
    tensor = pick(choose, [each for each in view.tensors if each.dims])
    tensor.dims[choose.randrange(len(tensor.dims))] = hostile.size(choose)


def other_rank(choose: random.Random, view: View) -> None:
    tensor = pick(choose, view.tensors)
    if tensor.dims and choose.random() < 0.5:
        tensor.dims.pop(choose.randrange(len(tensor.dims)))
    else:
        tensor.dims.insert(choose.randint(0, len(tensor.dims)), choose.choice((0, 1, 1, 2)))


def other_type(choose: random.Random, view: View) -> None:
    """Say that the elements are of another type than they are."""
    values = (*TensorProto.DataType.values(), -1, 99, 1 << 30)
    pick(choose, view.tensors).data_type = choose.choice(values)


def fewer_bytes(choose: random.Random, view: View) -> None:
    tensor = pick(choose, [each for each in view.tensors if each.raw_data])
    length = len(tensor.raw_data)
    tensor.raw_data = tensor.raw_data[: choose.choice((0, 1, length - 1, length // 2, max(0, length - 4)))]


def more_bytes(choose: random.Random, view: View) -> None:
    tensor = pick(choose, view.tensors)
    tensor.raw_data += choose.randbytes(choose.choice((1, 4, 8, 100, 5000)))


def clear(choose: random.Random, view: View) -> None:
    tensor = pick(choose, view.tensors)
    for name in FIELDS if choose.random() < 0.5 else (choose.choice(FIELDS),):
        tensor.ClearField(name)


def second_data(choose: random.Random, view: View) -> None:
    """Store elements in a second field as well."""
    tensor = pick(choose, view.tensors)
    name = choose.choice(FIELDS[1:])
    content: list[object] = [b"a"] if name == "string_data" else [0]
    getattr(tensor, name).extend(content * choose.choice((1, 2, 100)))


def other_numbers(choose: random.Random, view: View) -> None:
    """Keep the header, and replace the numbers: a shape, an axis, a weight of extreme values."""
    tensor = pick(choose, [each for each in view.tensors if _is_plain(each)])
    count = prod(tensor.dims)
    dtype = onnx.helper.tensor_dtype_to_np_dtype(tensor.data_type)
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        pool = hostile.INTEGERS if choose.random() < 0.7 else (-2, -1, 0, 1, 2, 3)
        numbers = [max(limits.min, min(limits.max, choose.choice(pool))) for _ in range(count)]
        array = np.array(numbers, dtype)
    elif dtype.kind == "b":
        array = np.array([choose.random() < 0.5 for _ in range(count)], dtype)
    else:
        with np.errstate(all="ignore"):
            array = np.array([hostile.number(choose) for _ in range(count)], np.float64).astype(dtype)
    _store(tensor, array.reshape(list(tensor.dims)))


def one_number(choose: random.Random, view: View) -> None:
    """Replace one number."""
    tensor = pick(choose, [each for each in view.tensors if _is_plain(each) and 0 not in each.dims])
    array = numpy_helper.to_array(tensor).copy().reshape(-1)
    place = choose.randrange(array.size)
    if array.dtype.kind in "iu":
        limits = np.iinfo(array.dtype)
        array[place] = max(limits.min, min(limits.max, hostile.integer(choose)))
    else:
        with np.errstate(all="ignore"):
            array[place] = np.float64(hostile.number(choose)).astype(array.dtype)
    _store(tensor, array.reshape(list(tensor.dims)))


def real_resize(choose: random.Random, view: View) -> None:
    """Give a tensor another shape, and as many numbers as it needs."""
    tensor = pick(choose, [each for each in view.tensors if _is_plain(each)])
    shape = [choose.choice((0, 1, 1, 2, 3, 4, 5, 8)) for _ in range(choose.choice((0, 1, 1, 2, 2, 3, 4, 5)))]
    array = np.resize(numpy_helper.to_array(tensor), shape) if 0 not in tensor.dims else np.zeros(shape)
    _store(tensor, array.astype(onnx.helper.tensor_dtype_to_np_dtype(tensor.data_type)))


def real_type(choose: random.Random, view: View) -> None:
    """Convert the numbers to another type."""
    tensor = pick(choose, [each for each in view.tensors if _is_plain(each)])
    kinds = (
        np.float32,
        np.float64,
        np.float16,
        np.int64,
        np.int32,
        np.uint8,
        np.bool_,
        np.complex64,
        np.uint64,
        np.int8,
    )
    with np.errstate(all="ignore"):
        _store(tensor, numpy_helper.to_array(tensor).astype(choose.choice(kinds)))


def external(choose: random.Random, view: View) -> None:
    """Say that a tensor lies in a file, with a place in it."""
    tensor = pick(choose, view.tensors)
    if choose.random() < 0.7:
        for name in FIELDS:
            tensor.ClearField(name)
    tensor.data_location = TensorProto.EXTERNAL
    del tensor.external_data[:]
    numbers = (*(str(each) for each in hostile.INTEGERS), "", "x", "1e3", "0x10", " 4", "٣", "9" * 5000)
    tensor.external_data.add(key="location", value=choose.choice((*LOCATIONS, "data.bin", "data.bin", "data.bin")))
    for key in ("offset", "length", "checksum", "x"):
        if choose.random() < 0.5:
            tensor.external_data.add(key=key, value=choose.choice(numbers))


def location(choose: random.Random, view: View) -> None:
    tensor = pick(choose, [each for each in view.tensors if each.external_data])
    entry = choose.choice(tensor.external_data)
    if choose.random() < 0.5:
        entry.value = choose.choice((*LOCATIONS, *map(str, hostile.INTEGERS), "x"))
    else:
        tensor.data_location = choose.choice((TensorProto.DEFAULT, TensorProto.EXTERNAL))


def name(choose: random.Random, view: View) -> None:
    tensor = pick(choose, view.tensors)
    tensor.name = hostile.text(choose) if choose.random() < 0.6 else pick(choose, view.names())


def delete(choose: random.Random, view: View) -> None:
    graph = pick(choose, [each for each in view.regions if isinstance(each, onnx.GraphProto) and each.initializer])
    del graph.initializer[choose.randrange(len(graph.initializer))]


def repeat(choose: random.Random, view: View) -> None:
    graph = pick(choose, [each for each in view.regions if isinstance(each, onnx.GraphProto) and each.initializer])
    copy = graph.initializer.add()
    copy.CopyFrom(choose.choice(graph.initializer))
    if choose.random() < 0.5:
        copy.name += ".weight"


def input_becomes_constant(choose: random.Random, view: View) -> None:
    """Turn an input of the model into an initialiser, so that more is known, and folded."""
    graph = view.model.graph
    if not graph.input:
        raise NotApplicableError
    place = choose.randrange(len(graph.input))
    value = graph.input[place]
    shape = [size.dim_value if 0 < size.dim_value < 10 else 2 for size in value.type.tensor_type.shape.dim]
    try:
        dtype = onnx.helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type)
    except (KeyError, TypeError, ValueError):
        raise NotApplicableError from None
    if dtype.kind not in "iufb" or prod(shape) > LARGEST:
        raise NotApplicableError
    generator = np.random.default_rng(choose.getrandbits(32))
    array = generator.integers(0, choose.choice((2, 4, 9)), shape).astype(dtype)
    graph.initializer.append(numpy_helper.from_array(array, value.name))
    if choose.random() < 0.7:
        del graph.input[place]


def constant_becomes_sparse(choose: random.Random, view: View) -> None:
    """Store an initialiser as a sparse tensor, and not always right."""
    graph = pick(choose, [each for each in view.regions if isinstance(each, onnx.GraphProto) and each.initializer])
    place = choose.randrange(len(graph.initializer))
    tensor = graph.initializer[place]
    sparse = graph.sparse_initializer.add()
    sparse.dims[:] = tensor.dims if choose.random() < 0.7 else hostile.sizes(choose)
    sparse.values.CopyFrom(tensor)
    count = choose.choice((0, 1, 2, 5))
    sparse.values.dims[:] = [count]
    indices = np.array(
        [hostile.integer(choose) if choose.random() < 0.3 else index for index in range(count)], np.int64
    )
    sparse.indices.CopyFrom(numpy_helper.from_array(indices))
    del graph.initializer[place]


def _is_plain(tensor: onnx.TensorProto) -> bool:
    """Whether the tensor can be read: of numbers, small, and with as many as its sizes say."""
    try:
        dtype = onnx.helper.tensor_dtype_to_np_dtype(tensor.data_type)
        if dtype.kind not in "iufb" or tensor.data_location == TensorProto.EXTERNAL or len(tensor.dims) > 32:
            return False
        if any(not 0 <= size <= LARGEST for size in tensor.dims) or prod(tensor.dims) > LARGEST:
            return False
        return numpy_helper.to_array(tensor).size == prod(tensor.dims)
    except (KeyError, TypeError, ValueError):
        return False


def _store(tensor: onnx.TensorProto, array: np.ndarray) -> None:
    kept = tensor.name
    tensor.CopyFrom(numpy_helper.from_array(np.ascontiguousarray(array) if array.ndim else array, kept))


CHANGES = {
    other_sizes: 2,
    other_size: 3,
    other_rank: 3,
    other_type: 3,
    fewer_bytes: 2,
    more_bytes: 1,
    clear: 2,
    second_data: 1,
    other_numbers: 5,
    one_number: 4,
    real_resize: 6,
    real_type: 4,
    external: 2,
    location: 3,
    name: 2,
    delete: 2,
    repeat: 1,
    input_becomes_constant: 7,
    constant_becomes_sparse: 2,
}
