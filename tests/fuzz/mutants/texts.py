"""Small valid models in ONNX's text form, for what ONNX's own cases and random graphs seldom have together."""

from __future__ import annotations


def _model(body: str, inputs: str, outputs: str, more: str = "", imports: str = '"" : 20, "me" : 1') -> str:
    return f"<ir_version: 9, opset_import: [{imports}]> g ({inputs}) => ({outputs}) {{ {body} }} {more}"


_LOOP = """
    n = Constant <value_int = 4> ()  c = Constant <value = bool {1}> ()
    y, trace = Loop(n, c, x) <body = b (int64 i, bool going, float[k, 4] a) => (bool on, float[k, 4] r, float[k] s) {
        on = Identity(going)  f = Cast <to = 1> (i)  r = Add(a, f)
        axis = Constant <value_ints = [1]> ()  s = ReduceSum <keepdims = 0> (r, axis) }>"""
_SCAN = """
    z = Constant <value_float = 0.0> ()  zero = Constant <value_ints = [4]> ()  start = ConstantOfShape(zero)
    y, trace = Scan <num_scan_inputs = 1, body = b (float[4] state, float[4] row) => (float[4] next, float[4] out) {
        next = Add(state, row)  out = Mul(next, next) }> (start, x)"""
_IF_IN_IF = """
    zero = Constant <value_float = 0.0> ()  total = ReduceSum <keepdims = 0> (x)  c = Greater(total, zero)
    y = If(c) <then_branch = a () => (float[k, 4] t) {
        d = Less(total, one)  t = If(d) <then_branch = p () => (float[k, 4] u) { u = Relu(x) },
                                         else_branch = q () => (float[k, 4] v) { v = Neg(x) }>
    }, else_branch = b () => (float[k, 4] e) { e = Exp(x) }>"""
_FUNCTIONS = """
    <domain: "me", opset_import: ["" : 20, "me" : 1]> Outer <slope> (a, w) => (b) {
        h = me.Inner(a, w)  b = LeakyRelu <alpha : float = @slope> (h) }
    <domain: "me", opset_import: ["" : 20]> Inner (a, w) => (b) { h = MatMul(a, w)  b = Add(h, h) }"""
_NORM = """
    m = ReduceMean <axes = [-1], keepdims = 1> (x)  d = Sub(x, m)  two = Constant <value_float = 2.0> ()
    s = Pow(d, two)  v = ReduceMean <axes = [-1], keepdims = 1> (s)  e = Constant <value_float = 0.00001> ()
    t = Add(v, e)  r = Sqrt(t)  q = Div(d, r)  g = Mul(q, scale)  y = Add(g, bias)"""
_ATTENTION = """
    q0 = MatMul(x, wq)  k0 = MatMul(x, wk)  v0 = MatMul(x, wv)
    q1 = Reshape(q0, heads)  k1 = Reshape(k0, heads)  v1 = Reshape(v0, heads)
    q = Transpose <perm = [0, 2, 1, 3]> (q1)  k = Transpose <perm = [0, 2, 3, 1]> (k1)
    v = Transpose <perm = [0, 2, 1, 3]> (v1)  s = MatMul(q, k)  r = Constant <value_float = 1.4142135> ()
    d = Div(s, r)  p = Softmax <axis = -1> (d)  o = MatMul(p, v)  t = Transpose <perm = [0, 2, 1, 3]> (o)
    y = Reshape(t, back)"""
_SHAPES = """
    s = Shape(x)  zero = Constant <value_int = 0> ()  one = Constant <value_ints = [1]> ()
    n = Gather <axis = 0> (s, zero)  u = Unsqueeze(n, axes)  minus = Constant <value_ints = [-1]> ()
    c = Concat <axis = 0> (u, minus)  f = Reshape(x, c)  r = Range(zero, n, step)
    e = ConstantOfShape <value = float[1] {2.5}> (u)  t = Tile(e, one)  p = Pad(f, pads)  m = Expand(p, one)
    y = Slice(m, starts, ends)"""
_SEQUENCES = """
    zero = Constant <value_int = 0> ()  s = SequenceConstruct(x, x)  e = SequenceInsert(s, x)
    a = SequenceAt(e, zero)  l = SequenceLength(e)  c = ConcatFromSequence <axis = 0> (s)
    parts = SplitToSequence <axis = 1> (x)  o = Optional(a)  h = OptionalHasElement(o)  y = Add(a, a)"""
_QUANTISED = """
    q = QuantizeLinear(x, scale, zero)  d = DequantizeLinear(q, scale, zero)
    w = DequantizeLinear(weight, scale, zero)  m = MatMul(d, w)  r = QuantizeLinear(m, scale, zero)
    y = DequantizeLinear(r, scale, zero)"""
_CONVOLUTIONS = """
    a = Conv <kernel_shape = [3, 3], pads = [1, 1, 1, 1], strides = [2, 2]> (x, weight, bias)
    b = BatchNormalization <epsilon = 0.001> (a, bias, bias, bias, bias)  c = Relu(b)
    d = MaxPool <kernel_shape = [2, 2], ceil_mode = 1> (c)  e = Resize <mode = "nearest"> (d, , scales)
    f = GlobalAveragePool(e)  y = Flatten(f)"""

TEXTS = {
    "loop": _model(_LOOP, "float[k, 4] x", "float[k, 4] y, float[4, k] trace"),
    "scan": _model(_SCAN, "float[m, 4] x", "float[4] y, float[m, 4] trace"),
    "if in if": _model(_IF_IN_IF, "float[k, 4] x, float one", "float[k, 4] y"),
    "functions": _model(
        "h = me.Outer <slope = 0.25> (x, w)  y = me.Outer <slope = 0.5> (h, w)",
        "float[k, 4] x",
        "float[k, 4] y",
        _FUNCTIONS,
    ).replace("y) {", "y) <float[4, 4] w = {1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16}> {", 1),
    "layer norm": _model(_NORM, "float[k, 4] x", "float[k, 4] y", imports='"" : 17').replace(
        "y) {", "y) <float[4] scale = {1,2,3,4}, float[4] bias = {1,1,1,2}> {", 1
    ),
    "attention": _model(_ATTENTION, "float[k, 3, 4] x", "float[k, 3, 4] y").replace(
        "y) {",
        "y) <" + ", ".join(f"float[4, 4] w{each} = {{{','.join(map(str, range(16)))}}}" for each in "qkv")
        + ", int64[4] heads = {0, 0, 2, 2}, int64[3] back = {0, 0, 4}> {",
        1,
    ),
    "shapes": _model(_SHAPES, "float[k, 3, 4] x", "y").replace(
        "=> (y) {",
        "=> (y) <int64[1] axes = {0}, int64 step = {1}, int64[4] pads = {0, 1, 0, 2}, int64[1] starts = {1}, "
        "int64[1] ends = {9223372036854775807}> {",
        1,
    ),
    "sequences": _model(_SEQUENCES, "float[k, 4] x", "float[k, 4] y, int64 l, c, parts, bool h"),
    "quantised": _model(_QUANTISED, "float[k, 4] x", "float[k, 4] y").replace(
        "y) {",
        "y) <float scale = {0.5}, uint8 zero = {3}, uint8[4, 4] weight = {1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16}> {",
        1,
    ),
    "convolutions": _model(_CONVOLUTIONS, "float[k, 2, 8, 8] x", "float[k, 3] y").replace(
        "y) {",
        "y) <float[3, 2, 3, 3] weight = {" + ",".join(f"0.{each}" for each in range(10, 64))
        + "}, float[3] bias = {1, 2, 3}, float[4] scales = {1, 1, 2, 2}> {",
        1,
    ),
    "old opset": _model(
        "u = Unsqueeze <axes = [0]> (x)  s = Squeeze <axes = [0]> (u)  p = Pad <pads = [0, 1, 0, 1]> (s) "
        "c = Clip <min = 0.0, max = 6.0> (p)  l = Slice <starts = [0], ends = [2], axes = [1]> (c) "
        "d = Dropout <ratio = 0.5> (l)  y = Softmax <axis = 1> (d)",
        "float[2, 4] x",
        "float[2, 2] y",
        imports='"" : 9',
    ),
    "fused": _model(
        "a = com.microsoft.FusedMatMul <alpha = 0.5, transB = 1> (x, x)  b = com.microsoft.Gelu(a) "
        "c, d, e = com.microsoft.SkipLayerNormalization(b, b, gamma)  y = com.microsoft.QuickGelu(c)",
        "float[2, 4, 4] x, float[4] gamma",
        "y",
        imports='"" : 17, "com.microsoft" : 1',
    ),
}  # fmt: skip
