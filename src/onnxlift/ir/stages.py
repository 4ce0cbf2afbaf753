"""The stages from bytes to a graph. Each is a table of the steps that the files of one folder declare."""

from __future__ import annotations

from onnxlift.ir import building, checking, reading
from onnxlift.stages import Stage, steps_in

READING = Stage("reading", "untrusted bytes become a proto; large tensors stay where they are", steps_in(reading))
CHECKING = Stage("checking", "the rules that a model must keep before anything is done with it", steps_in(checking))
BUILDING = Stage("building", "the checked proto becomes a graph in one spelling, sorted", steps_in(building))
STAGES = (READING, CHECKING, BUILDING)
