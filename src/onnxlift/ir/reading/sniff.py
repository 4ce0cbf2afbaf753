"""Guess the format of a file that turned out to be no ONNX model."""

from __future__ import annotations

from collections.abc import Callable

_SIGNATURES: tuple[tuple[Callable[[bytes], bool], str], ...] = (
    (lambda head: not head, "it is empty"),
    (lambda head: head.startswith(b"version https://git-lfs"), "it is a Git LFS pointer: run `git lfs pull`"),
    (
        lambda head: head.startswith(b"PK\x03\x04") and b".pkl" in head,
        "it looks like a PyTorch checkpoint or TorchScript file: export it with torch.onnx.export first",
    ),
    (lambda head: head.startswith(b"PK\x03\x04"), "it looks like a zip archive: unpack it first"),
    (lambda head: head.startswith(b"\x1f\x8b"), "it looks like a gzip archive: unpack it first"),
    (lambda head: head[8:10] == b'{"', "it looks like a safetensors file, which holds weights but no graph"),
    (lambda head: head[4:8] == b"TFL3", "it looks like a TensorFlow Lite model: convert it with tf2onnx first"),
    (lambda head: head[4:8] == b"ORTM", "it looks like an ORT format model: lift the .onnx file that it was made from"),
    (lambda head: head.startswith(b"\x89HDF"), "it looks like an HDF5 (Keras) file: convert it with tf2onnx first"),
    (lambda head: head.startswith(b"GGUF"), "it looks like a GGUF file, which holds weights but no graph"),
    (lambda head: head.startswith(b"\x93NUMPY"), "it looks like a numpy array"),
    (
        lambda head: head[:1] == b"\x80" and head[1:2] in (b"\x02", b"\x03", b"\x04", b"\x05"),
        "it looks like a Python pickle, perhaps an old PyTorch checkpoint",
    ),
    (
        lambda head: head.lstrip()[:15].lower().startswith((b"<!doctype html", b"<html")),
        "it looks like an HTML page, perhaps the error page of a download",
    ),
    (lambda head: head.lstrip().startswith(b"<?xml"), "it looks like XML, perhaps an OpenVINO model"),
    (lambda head: _is_text(head), "it looks like a text file"),
)


def looks_like(head: bytes) -> str:
    """Return a clause that says what a file with this beginning looks like; an empty string if we cannot guess."""
    return next((clause for matches, clause in _SIGNATURES if matches(head)), "")


def _is_text(head: bytes) -> bool:
    try:
        # The sample may end in the middle of a character.
        text = head.decode("utf-8", errors="strict" if len(head) < 512 else "ignore")
    except UnicodeDecodeError:
        return False
    return all(char.isprintable() or char in "\r\n\t" for char in text)
