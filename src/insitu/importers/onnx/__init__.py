"""ONNX files: read without the onnx package, one table from foreign ops to ours."""
