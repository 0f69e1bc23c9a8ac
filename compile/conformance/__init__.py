"""The onnx package's own backend cases, run through the whole path: build, artifact, executor."""
