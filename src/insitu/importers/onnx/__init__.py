"""ONNX files: one table from foreign ops to ours."""
