"""Models in ONNX, for programs without torch: written by :mod:`.export`, run by :mod:`.runner`."""
