"""Prints what TensorBoard reads from a folder of event files, as JSON: scalars as {tag: [[step, value], ..]} and
texts as {tag: text}."""

import json
import sys

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

events = EventAccumulator(sys.argv[1], size_guidance={"scalars": 0, "tensors": 0})
events.Reload()
tags = events.Tags()
json.dump(
    {
        "scalars": {tag: [[e.step, e.value] for e in events.Scalars(tag)] for tag in tags["scalars"]},
        "texts": {tag: events.Tensors(tag)[-1].tensor_proto.string_val[0].decode() for tag in tags["tensors"]},
        "text_plugin": list(events.PluginTagToContent("text")),
    },
    sys.stdout,
)
