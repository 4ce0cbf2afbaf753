"""Make the session options that a task asks for. Called in the child process only."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import onnxruntime

from onnxlift.verification.reference import FOLDER_OPTION


def session_options(task: Mapping[str, Any]) -> onnxruntime.SessionOptions:
    """Return the session options that a task asks for."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.add_session_config_entry(FOLDER_OPTION, task["folder"])
    if task.get("threads"):
        options.intra_op_num_threads = task["threads"]
        options.inter_op_num_threads = 1
    for library in task.get("libraries", ()):
        options.register_custom_ops_library(library)
    for name, value in task["options"].items():
        if "." in name:
            options.add_session_config_entry(name, value)
        elif name == "graph_optimization_level":
            options.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, value)
        elif name == "execution_mode":
            options.execution_mode = getattr(onnxruntime.ExecutionMode, value)
        else:
            setattr(options, name, value)
    if task.get("profile"):
        options.enable_profiling = True
        options.profile_file_prefix = task["profile"]
    return options
