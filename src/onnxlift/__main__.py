"""`python -m onnxlift` is the command line."""

from .cli import main

main()
