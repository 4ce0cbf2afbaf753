"""The command line. Each command is a file that parses arguments, calls the API, and prints.

Commands import heavy packages only when they run. So `onnxlift --help` is quick, and `inspect` and `convert` never
import torch.
"""

from __future__ import annotations

import os
import sys
import traceback


def main() -> None:
    """Run the command line. For an OnnxLiftError, print one message without a traceback and exit with status 2.

    The exit status is that of diff and grep: 0 means yes, 1 no (a mismatch, findings), 2 trouble."""
    from onnxlift.errors import OnnxLiftError

    from .app import app
    from .options import DEBUG
    from .outcome import TROUBLE

    try:
        app()
    except OnnxLiftError as error:
        if os.environ.get(DEBUG):
            traceback.print_exception(error.__cause__ or error)
        print(f"onnxlift: {error}", file=sys.stderr)
        sys.exit(TROUBLE)
    except BrokenPipeError:
        # The reader of our output has stopped reading (`onnxlift ops | head`). Keep Python from complaining at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(TROUBLE)
