"""The last gate lets through what onnxlift writes, and nothing that a stranger might."""

from __future__ import annotations

import pytest

from onnxlift.lifting import kernels
from onnxlift.lifting.text.file import _imports, format_source
from onnxlift.lifting.text.gate import UnexpectedSource, check_source
from onnxlift.lifting.text.listed import LINE_LENGTH

HEAD = '"""A model."""\n\nfrom torch import Tensor, nn\n\n\n'


def model(body: str) -> str:
    return f"{HEAD}class Model(nn.Module):\n    def forward(self, x: Tensor) -> Tensor:\n        {body}\n"


@pytest.mark.parametrize(
    "source",
    [
        HEAD + "import os\n",
        HEAD + "import torch.hub\n",
        HEAD + "from os import system\n",
        HEAD + "from . import other\n",
        HEAD + "open('x', 'w')\n",
        HEAD + "'text'\n",
        HEAD + "x = 1\n",
        HEAD + "for i in range(3):\n    pass\n",
        HEAD + "class Model(nn.Module):\n    open('x')\n",
        HEAD + "class Model(nn.Module):\n    x = 1\n",
        HEAD + "class Model(nn.Module):\n    x: Tensor = 1\n",
        HEAD + "class Model(nn.Module):\n    x: open('x')\n",
        HEAD + "class Model(nn.Module, metaclass=nn):\n    pass\n",
        HEAD + "class Model(nn.DataParallel):\n    def forward(self):\n        return 1\n",
        HEAD + "@nn.Module\nclass Model(nn.Module):\n    def forward(self):\n        return 1\n",
        HEAD + "@nn.Module\ndef f(x):\n    return x\n",
        HEAD + "async def f(x):\n    return x\n",
        model("self._conv = x\n        return self._modules"),
        model("self._modules = x\n        return x"),
        model("self.__conv = x\n        return self.__conv"),
        model("self._C = x\n        return nn._C"),
        model("return self._conv(x)"),
        model("return open('x')"),
        model("return __import__('os')"),
        model("return eval('1')"),
        model("return getattr(x, 'y')"),
        model("return globals()"),
        model("return __builtins__"),
        model("return x.__class__"),
        model("return x._backward_hooks"),
        model("return (y := x)"),
        model("yield x"),
        model("global x"),
        model("return unknown"),
        model("return type(x)"),
        model("return type[x]"),
    ],
)
def test_what_is_refused(source: str) -> None:
    with pytest.raises(UnexpectedSource):
        check_source(source)


def test_members_of_the_model_may_begin_with_an_underscore() -> None:
    check_source(model("self._conv = nn.Linear(2, 2)\n        return self._conv(x)"))


def test_what_is_registered_may_begin_with_an_underscore() -> None:
    """The name of a constant in the model, `_scale`, was an internal error where it is a buffer."""
    registered = 'self.register_buffer("_scale", x)\n        return x * self.'
    check_source(model(f"{registered}_scale"))
    with pytest.raises(UnexpectedSource, match="attribute _other"):
        check_source(model(f"{registered}_other"))


def test_every_kernel_passes() -> None:
    text = "\n\n\n".join(kernels.sources(kernels._index(), LINE_LENGTH).values())
    check_source("\n".join([*_imports(text), text]))
    assert max(map(len, format_source(text).splitlines())) <= LINE_LENGTH


def test_a_plain_model_passes() -> None:
    check_source(model("x = [y.sin() for y in (x, x)][0]\n        return x if len(x) > 1 else x + int(2.5)"))
