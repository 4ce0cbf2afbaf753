"""What the user asks of ONNX Runtime, checked before anything runs: providers, options, threads, custom operators."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from onnxlift.errors import OnnxLiftError, quote

CPU = "CPUExecutionProvider"
_SUFFIX = "ExecutionProvider"
_SHORT = {"trt": "TensorrtExecutionProvider", "directml": "DmlExecutionProvider", "nnapi": "NnapiExecutionProvider"}
LEVELS = {"disable": "ORT_DISABLE_ALL", "basic": "ORT_ENABLE_BASIC", "extended": "ORT_ENABLE_EXTENDED"} | {
    "layout": "ORT_ENABLE_LAYOUT",
    "all": "ORT_ENABLE_ALL",
}
MODES = {"sequential": "ORT_SEQUENTIAL", "parallel": "ORT_PARALLEL"}
_NUMBERS = ("intra_op_num_threads", "inter_op_num_threads", "log_severity_level", "log_verbosity_level")
_SWITCHES = (
    "enable_cpu_mem_arena",
    "enable_mem_pattern",
    "enable_mem_reuse",
    "use_deterministic_compute",
    "use_per_session_threads",
)
_OWN = {
    "enable_profiling": "--profile",
    "profile_file_prefix": "--profile",
    "optimized_model_filepath": "--optimized",
    "session.model_external_initializers_file_folder_path": "the model's own folder",
    "session.optimized_model_external_initializers_file_name": "--optimized",
}
"""Options that name files, with what is to be used instead: nothing is read or written where we do not look."""

Providers = Sequence[str | tuple[str, Mapping[str, Any]]]


@dataclass(frozen=True)
class Settings:
    """What a session of ONNX Runtime is opened with. `threads` is the number of threads of one operator."""

    providers: tuple[tuple[str, Mapping[str, str]], ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)
    threads: int | None = None
    libraries: tuple[str, ...] = ()
    """Shared libraries of custom operators."""
    python: tuple[str, ...] = ()
    """Python files of custom operators. They are executed."""

    def to_task(self) -> dict[str, Any]:
        """Return the settings as plain data for a child."""
        return {
            "providers": [[name, dict(options)] for name, options in self.providers],
            "options": dict(self.options),
            "threads": self.threads,
            "libraries": list(self.libraries),
            "python": list(self.python),
        }


def settings_from(
    *,
    providers: str | Providers = (),
    options: Mapping[str, Any] | None = None,
    threads: int | None = None,
    custom_ops: str | os.PathLike[str] | Sequence[str | os.PathLike[str]] = (),
) -> Settings:
    """Check what the user asks for. Raises an OnnxLiftError that names what ONNX Runtime does not know."""
    if threads is not None and threads < 1:
        raise OnnxLiftError(f"{threads} is no number of threads: it is at least 1.")
    named = [providers] if isinstance(providers, str) else list(providers)
    files = [custom_ops] if isinstance(custom_ops, str | os.PathLike) else list(custom_ops)
    found = [_custom(Path(file)) for file in files]
    return Settings(
        providers=tuple(map(_provider, named)),
        options={name: _option(name, value) for name, value in (options or {}).items()},
        threads=threads,
        libraries=tuple(str(path) for path in found if path.suffix != ".py"),
        python=tuple(str(path) for path in found if path.suffix == ".py"),
    )


def require_runtime() -> str:
    """Return the version of ONNX Runtime. Raises an OnnxLiftError if it is not installed."""
    from importlib.metadata import version
    from importlib.util import find_spec

    if find_spec("onnxruntime") is None:
        raise OnnxLiftError("this needs ONNX Runtime: pip install 'onnxlift[verify]'.")
    for package in ("onnxruntime", "onnxruntime-gpu", "onnxruntime-openvino", "onnxruntime-directml"):
        try:
            return version(package)
        except ModuleNotFoundError:
            continue
    return ""


def _provider(given: str | tuple[str, Mapping[str, Any]]) -> tuple[str, dict[str, str]]:
    """Return the full name of a provider that this ONNX Runtime has, and its options.

    `cuda` is CUDAExecutionProvider; `cuda:device_id=1,do_copy_in_default_stream=0` gives options."""
    require_runtime()
    import onnxruntime

    available = onnxruntime.get_available_providers()
    if isinstance(given, str):
        name, _, text = given.partition(":")
        options = dict(_pair(part, given) for part in text.split(",") if part.strip())
    else:
        name, more = given
        options = {str(key): str(value) for key, value in more.items()}
    wanted = _SHORT.get(name.strip().lower(), name.strip()).removesuffix(_SUFFIX).lower()
    for each in available:
        if each.removesuffix(_SUFFIX).lower() == wanted:
            return each, options
    short = ", ".join(f"{each.removesuffix(_SUFFIX).lower()}" for each in available)
    raise OnnxLiftError(
        f"this ONNX Runtime ({onnxruntime.__version__}) has no provider {quote(name)}; it has {short}. Others "
        "come with other packages, such as onnxruntime-gpu."
    )


def _pair(text: str, whole: str) -> tuple[str, str]:
    name, separator, value = text.partition("=")
    if not separator or not name.strip():
        raise OnnxLiftError(f"{whole!r} is not a provider with options, like cuda:device_id=1.")
    return name.strip(), value.strip()


def _option(name: str, value: Any) -> Any:
    """Return the value of a session option in the type that it has. Names with dots are configuration entries."""
    text = str(value).strip()
    if name in _OWN:
        raise OnnxLiftError(f"the option {name!r} is not for --option: use {_OWN[name]}.")
    if "." in name:
        return "1" if value is True else "0" if value is False else text
    if name in ("graph_optimization_level", "execution_mode"):
        table = LEVELS if name.startswith("graph") else MODES
        full = table.get(text.lower(), text.upper())
        if full not in table.values():
            raise OnnxLiftError(f"{text!r} is no value of {name}: it is one of {', '.join(table)}.")
        return full
    if name in _NUMBERS:
        if not text.isdigit():
            raise OnnxLiftError(f"{text!r} is no value of {name}: it is a whole number.")
        return int(text)
    if name in _SWITCHES:
        if text.lower() not in ("0", "1", "true", "false"):
            raise OnnxLiftError(f"{text!r} is no value of {name}: it is true or false.")
        return text.lower() in ("1", "true")
    known = ["graph_optimization_level", "execution_mode", *_NUMBERS, *_SWITCHES]
    close = get_close_matches(name, known, n=1)
    hint = f"did you mean {close[0]}?" if close else f"there are {', '.join(known)}, and entries like session.NAME."
    raise OnnxLiftError(f"ONNX Runtime has no session option {quote(name)}; {hint}")


def _custom(path: Path) -> Path:
    if not path.is_file():
        raise OnnxLiftError(f"there is no file {str(path)!r} with custom operators.")
    return path.absolute()
