"""An infused model as an ONNX graph that reads knowledge, for `infuser.runtime`.

Knowledge is an input of the graph. What the batch carries in a few integers per link depends on the data when it is
drawn, which no graph can do, so maps and ties go in drawn (`signals.drawing`); all else goes in as the batch has it.
"""

from infuser.exporting.folder import ExportReport, export_parts

__all__ = ["ExportReport", "export_parts"]
