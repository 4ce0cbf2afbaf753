"""Cut the large tensors out of a serialised model, at the level of protobuf's wire format.

    ...raw_data: <400 MB>...  ->  ...raw_data: <ticket of 24 bytes>...

protobuf copies every tensor when it parses, and refuses messages above 2 GiB. So the large `raw_data` payloads are cut
out first: the caller is told where each one lies, and gives the ticket that takes its place. Everything else reaches
the parser byte for byte. So protobuf's own rules stay in force (fields in any order, repeated messages merged, the last
`raw_data` wins), and this file need not know them: whichever ticket is left after parsing names the right bytes.
"""

from __future__ import annotations

from collections.abc import Callable

CUT_FROM = 1024
"""Payloads of at least this many bytes are cut out, and only messages of at least this size are looked into."""

MAX_FIELDS = 5_000_000
"""The most fields of a model. A field of two bytes costs the parser a hundred, so their number is limited first."""

MAX_DEPTH = 100
"""The depth of nesting to which protobuf parses. We do not look deeper, and leave it to protobuf to refuse that."""


class WireError(ValueError):
    """The bytes do not follow protobuf's wire format, or exceed the limits above."""


class Message(dict[int, "Message"]):
    """The fields of a type of message in which weights may lie: field number -> type of the submessage."""


RAW_DATA = Message()
TENSOR = Message({9: RAW_DATA})
GRAPH = Message({5: TENSOR})  # and 1: NODE, below
ATTRIBUTE = Message({5: TENSOR, 6: GRAPH, 10: TENSOR, 11: GRAPH})  # t, g, tensors, graphs
NODE = Message({5: ATTRIBUTE})
GRAPH[1] = NODE
FUNCTION = Message({7: NODE, 11: ATTRIBUTE})  # node, attribute_proto
MODEL = Message({7: GRAPH, 25: FUNCTION})

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
FIXED_SIZES = {FIXED64: 8, FIXED32: 4}


def cut_weights(model: memoryview, ticket: Callable[[int, int], bytes]) -> bytes:
    """Return the serialised ModelProto with `ticket(offset, length)` in the place of each large `raw_data`.

    Raises WireError if the bytes are not a protobuf message.
    """
    pieces = _Cutter(model, ticket).cut(MODEL, 0, len(model), 0)
    return bytes(model) if pieces is None else b"".join(pieces)


class _Cutter:
    def __init__(self, data: memoryview, ticket: Callable[[int, int], bytes]) -> None:
        self.data = data
        self.ticket = ticket
        self.fields = 0

    def cut(self, message: Message, start: int, end: int, depth: int) -> list[bytes | memoryview] | None:
        """Return the pieces that make up data[start:end] without weights, or None if it holds none."""
        data, varint = self.data, self.varint
        pieces: list[bytes | memoryview] = []
        copied = position = start
        while position < end:
            self.fields += 1
            if self.fields > MAX_FIELDS:
                raise WireError(f"it has more than {MAX_FIELDS:,} fields")
            field = position
            tag, position = varint(position, end)
            kind = tag & 7
            if tag < 8:
                raise WireError(f"there is no field number at byte {field:,}")
            if kind == BYTES:
                length, position = varint(position, end)
                following = position + length
                if following > end:
                    raise _too_short(following - end, depth)
                if length >= CUT_FROM and (child := message.get(tag >> 3)) is not None:
                    inner = self.replacement(child, position, following, depth)
                    if inner is not None:
                        pieces += (data[copied:field], _varint(tag), _varint(sum(map(len, inner))), *inner)
                        copied = following
                position = following
            else:
                position = self.after_number(kind, field, position, end)
        if position > end:
            raise _too_short(position - end, depth)
        if not pieces:
            return None
        pieces.append(data[copied:end])
        return pieces

    def after_number(self, kind: int, field: int, position: int, end: int) -> int:
        """Return where the field ends that begins at byte `field` and has a number of this wire type at `position`."""
        if kind == VARINT:
            return self.varint(position, end)[1]
        if kind not in FIXED_SIZES:
            raise WireError(f"wire type {kind} at byte {field:,} is not one that ONNX uses")
        return position + FIXED_SIZES[kind]

    def replacement(self, message: Message, start: int, end: int, depth: int) -> list[bytes | memoryview] | None:
        """Return what takes the place of the submessage data[start:end]; None if it stays as it is."""
        if message is RAW_DATA:
            return [self.ticket(start, end - start)]
        return self.cut(message, start, end, depth + 1) if depth < MAX_DEPTH else None

    def varint(self, position: int, end: int) -> tuple[int, int]:
        """Return the number that begins at `position`, and the position after it."""
        value = shift = 0
        while position < end and shift < 70:
            byte = self.data[position]
            position += 1
            if byte < 0x80:
                return value | byte << shift, position
            value |= (byte & 0x7F) << shift
            shift += 7
        raise WireError(f"the number that ends at byte {position:,} is not complete")


def _too_short(missing: int, depth: int) -> WireError:
    if depth == 0:
        return WireError(f"it is truncated, and {missing:,} bytes or more are missing at its end")
    return WireError(f"a part of it ends {missing:,} bytes after the whole")


def _varint(value: int) -> bytes:
    encoded = bytearray()
    while value >= 0x80:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)
