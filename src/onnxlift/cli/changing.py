"""The options that all commands share which change a model, and what becomes of them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from functools import partial, wraps
from typing import Any

from .each import Target, change_each
from .options import (
    Atol,
    Dim,
    ExternalData,
    Force,
    Input,
    Jobs,
    Json,
    Memory,
    Output,
    Quiet,
    Rtol,
    Seed,
    Shape,
    Timeout,
    Verify,
    parse_dims,
    parse_shapes,
)

Change = tuple[Sequence[str], Callable[..., Any]]
"""The models, and the verb that returns a ModelReport for each, or one that is saved and told in the same way."""


def changes_models(
    command: Callable[..., Change], suffix: Callable[..., str] = lambda **options: ""
) -> Callable[..., None]:
    """Return a command that changes models, with all the options that such commands share.

    `command` takes the arguments and options of its own, and those of the shared ones that it has a parameter for. It
    returns the models, and the verb with these options bound. The verb runs on each model, and takes the shared options
    too. `suffix` is that of the files that are written to a folder, given the same arguments and options, if it is
    another than that of the models."""
    parameters = inspect.signature(command, eval_str=True).parameters

    @wraps(command)
    def run(*arguments: Any, **options: Any) -> None:
        shared = {name: options.pop(name) for name in _SHARED}
        options |= {name: value for name, value in shared.items() if name in parameters}
        models, verb = command(*arguments, **options)
        _change(command.__name__, models, verb, suffix(**options), **shared)

    own = [parameter for name, parameter in parameters.items() if name not in _SHARED]
    vars(run)["__signature__"] = inspect.Signature([*own, *_SHARED.values()], return_annotation=None)
    return run


def _change(
    command: str,
    models: Sequence[str],
    verb: Callable[..., Any],
    suffix: str,
    *,
    output: Output = None,
    verify: Verify = True,
    input: Input = None,
    shape: Shape = None,
    dim: Dim = None,
    seed: Seed = 0,
    rtol: Rtol = None,
    atol: Atol = None,
    timeout: Timeout = 300.0,
    memory: Memory = None,
    external_data: ExternalData = "auto",
    force: Force = False,
    jobs: Jobs = 1,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Run the verb on each model, with the options of verifying, and write the results."""
    complete = partial(
        verb,
        verify=verify,
        inputs=input,
        shapes=parse_shapes(shape or ()),
        dims=parse_dims(dim or ()),
        seed=seed,
        rtol=rtol,
        atol=atol,
        timeout=timeout,
        memory=memory,
    )
    change_each(
        command, models, complete, Target(output, force, external_data, suffix), json=json, quiet=quiet, jobs=jobs
    )


_SHARED = {
    name: parameter
    for name, parameter in inspect.signature(_change, eval_str=True).parameters.items()
    if parameter.kind is inspect.Parameter.KEYWORD_ONLY
}
