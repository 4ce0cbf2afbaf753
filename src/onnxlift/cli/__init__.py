"""The command line. Each command is a file; they parse, call the API, and print. What is heavy to import is imported
when a command runs, so that `onnxlift --help` is quick and `inspect` and `convert` never import torch.
"""

from __future__ import annotations

import os
import sys


def main() -> None:
    """Run the command line; what goes wrong with a model is one message and exit status 1, without a traceback."""
    from onnxlift.errors import OnnxLiftError

    from .app import app

    try:
        app()
    except OnnxLiftError as error:
        print(f"onnxlift: {error}", file=sys.stderr)
        sys.exit(1)
    except BrokenPipeError:
        # Whoever read our output has enough of it (`onnxlift ops | head`); keep Python from complaining at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
