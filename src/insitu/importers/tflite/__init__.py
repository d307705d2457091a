"""LiteRT files (.tflite), float and int8."""
