# SPDX-License-Identifier: Apache-2.0
"""Event files, written by tensorboard itself: a folder for each run, in it one file.

The file's name and bytes follow from the run alone, so that the same export again changes nothing.
"""

import io
import os

from common import Trouble, place


def write(runs, folder, request, wrote):
    try:
        from tensorboard.compat.proto import event_pb2, summary_pb2, tensor_pb2, types_pb2
        from tensorboard.summary.writer.record_writer import RecordWriter
    except ImportError as error:
        raise Trouble(
            "expected a Python with tensorboard, found none (%s): pip install tensorboard, or name "
            "another interpreter with --python" % error
        ) from None

    def events(run):
        yield event_pb2.Event(wall_time=run.start_ns / 1e9, file_version="brain.Event:2")
        points = sorted((p[2], p[0], name, p[1]) for name, c in run.curves() for p in c)
        for ns, step, name, value in points:
            scalar = summary_pb2.Summary.Value(tag=name, simple_value=value)
            yield event_pb2.Event(
                wall_time=ns / 1e9, step=step, summary=summary_pb2.Summary(value=[scalar])
            )
        for name, words in sorted({**run.parameters(), **run.tags()}.items()):
            about = summary_pb2.SummaryMetadata(
                plugin_data=summary_pb2.SummaryMetadata.PluginData(plugin_name="text")
            )
            tensor = tensor_pb2.TensorProto(dtype=types_pb2.DT_STRING, string_val=[words.encode()])
            value = summary_pb2.Summary.Value(tag="run/" + name, metadata=about, tensor=tensor)
            yield event_pb2.Event(
                wall_time=run.end_ns / 1e9, summary=summary_pb2.Summary(value=[value])
            )

    for run in runs:
        buffer = io.BytesIO()
        writer = RecordWriter(buffer)
        for event in events(run):
            writer.write(event.SerializeToString(deterministic=True))
        inside = os.path.join(folder, run.name)
        try:
            os.makedirs(inside, exist_ok=True)
        except OSError as error:
            raise Trouble("%s cannot be made: %s" % (inside, error.strerror)) from None
        name = "events.out.tfevents.%010d.twinrun" % (run.start_ns // 10**9)
        # The verdict may have come since: the file is ours, and tells of this run alone.
        place(os.path.join(inside, name), buffer.getvalue(), True)
        count = sum(len(points) for _, points in run.curves())
        wrote("%s  %d losses" % (inside, count))
