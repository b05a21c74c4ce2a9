"""Names that several test modules use."""

EXECUTORCH = "executorch.backends.xnnpack.quantizer.xnnpack_quantizer"
TORCHAO = "torchao.testing.pt2e._xnnpack_quantizer"
