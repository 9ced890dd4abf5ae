"""The 6-bit block-scaled weight format (OCP MXFP6) on numpy arrays, with the engine's codec and kernels."""

from ._core.mxfp6 import dequantize, isas, matmul, pack, quantize, unpack

__all__ = ["dequantize", "isas", "matmul", "pack", "quantize", "unpack"]
