"""The rules that a model must keep before anything is done with it. Messages name things as the file does.

The rules are checked on the proto, before anything is expanded and without touching the weights. onnx's own checker is
not used: its full check hangs on a 3 KB file of functions that call each other, it opens external files by itself, and
its messages rarely say which node is meant.
"""
