"""Changes of any field of any message, by what protobuf knows of them: nothing that a file can say is left out."""

from __future__ import annotations

import random

import onnx
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from . import hostile
from .view import NotApplicableError, View, pick

MOST = 20_000


def change_field(choose: random.Random, view: View) -> None:
    """Clear, repeat, drop or replace one field of one message, of which each is as likely as any other."""
    message = pick(choose, _messages(view.model))
    fields = [field for field, _ in message.ListFields()]
    draw = choose.random()
    if draw < 0.3:
        field = choose.choice(message.DESCRIPTOR.fields)  # also one that is not there yet
    else:
        field = pick(choose, fields)
    if draw > 0.85:
        message.ClearField(field.name)
    elif _is_repeated(field):
        _change_list(choose, getattr(message, field.name), field)
    elif field.type == FieldDescriptor.TYPE_MESSAGE:
        getattr(message, field.name).SetInParent()
    else:
        setattr(message, field.name, _scalar(choose, field))


def splice(choose: random.Random, view: View) -> None:
    """Put a message of this model, or of another, in the place of one of the same type."""
    message = pick(choose, _messages(view.model))
    source = choose.choice([view.model, *view.strangers])
    same = [each for each in _messages(source) if each.DESCRIPTOR is message.DESCRIPTOR and each is not message]
    other = pick(choose, same).SerializeToString()
    if len(other) > 100_000:
        raise NotApplicableError
    message.ParseFromString(other) if choose.random() < 0.7 else message.MergeFromString(other)


def _change_list(choose: random.Random, items: list, field: FieldDescriptor) -> None:
    draw = choose.random()
    if items and draw < 0.35:
        del items[choose.randrange(len(items))]
    elif field.type == FieldDescriptor.TYPE_MESSAGE:
        if items and draw < 0.9:
            items.add().CopyFrom(choose.choice(items))
        else:
            items.add()
    elif items and draw < 0.65:
        items[choose.randrange(len(items))] = _scalar(choose, field)
    elif items and draw < 0.8:
        items.append(choose.choice(items))
    else:
        items.append(_scalar(choose, field))


def _scalar(choose: random.Random, field: FieldDescriptor) -> object:
    kind = field.type
    if kind == FieldDescriptor.TYPE_STRING:
        return hostile.text(choose)
    if kind == FieldDescriptor.TYPE_BYTES:
        return choose.choice((b"", b"\xff", b"NOTSET", b"x" * 4, b"x" * 5000, hostile.text(choose).encode()))
    if kind in {FieldDescriptor.TYPE_FLOAT, FieldDescriptor.TYPE_DOUBLE}:
        return hostile.number(choose)
    number = hostile.integer(choose)
    if kind == FieldDescriptor.TYPE_ENUM:
        return choose.choice([each.number for each in field.enum_type.values])
    if kind == FieldDescriptor.TYPE_INT32:
        return max(-(1 << 31), min((1 << 31) - 1, number if choose.random() < 0.3 else choose.randint(-1, 26)))
    return abs(number) if kind == FieldDescriptor.TYPE_UINT64 else number


def _is_repeated(field: FieldDescriptor) -> bool:
    repeated = getattr(field, "is_repeated", None)
    return bool(field.label == FieldDescriptor.LABEL_REPEATED if repeated is None else repeated)


def _messages(model: onnx.ModelProto) -> list[Message]:
    """The message and all that lie in it, as far as they are not too many."""
    found: list[Message] = [model]
    for message in found:
        for field, value in message.ListFields():
            if field.type == FieldDescriptor.TYPE_MESSAGE:
                found.extend(value if _is_repeated(field) else [value])
        if len(found) > MOST:
            break
    return found


CHANGES = {change_field: 14, splice: 8}
