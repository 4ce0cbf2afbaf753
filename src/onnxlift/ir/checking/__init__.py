"""The rules that a model must keep before anything is done with it, told in terms of the file's own names.

They are checked on the proto, before anything is expanded and without touching the weights. onnx's checker is not used:
its full check hangs on a 3 KB file of functions that call each other, it looks for external files by itself, and where
it does complain it rarely says which node is meant.
"""
