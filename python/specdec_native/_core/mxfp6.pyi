"""
The 6-bit block-scaled weight format (OCP MXFP6) on numpy arrays: the engine's own codec and kernels.

32 weights of a row share one scale byte s, of value 2**(s - 127). The elements are E2M3: magnitudes up to 7.5, the
smallest step is 1/8. 16 rows x 32 columns are a tile of 400 bytes.
Arrays must have exactly the dtype named, nothing is converted; any strides are accepted. Bad values raise
ValueError.
"""
from __future__ import annotations
import numpy
import numpy.typing
import typing
__all__: list[str] = ['dequantize', 'isas', 'matmul', 'pack', 'quantize', 'unpack']
def dequantize(codes: numpy.ndarray, scales: numpy.ndarray) -> numpy.typing.NDArray[numpy.float32]:
    """
    codes uint8 [rows, cols], scales uint8 [rows, cols / 32] -> float32 [rows, cols], exact.
    
    Every scale byte is accepted: 0 is 2**-127, 255 gives NaN; values beyond the range of float32 are infinite.
    ValueError: wrong dtype or shape, cols not a multiple of 32, a code above 63.
    """
def isas() -> list[str]:
    """
    Names of the instruction sets this CPU supports, best first; the last is "scalar".
    """
def matmul(tiles: numpy.ndarray, x: numpy.ndarray, rows: typing.SupportsInt | typing.SupportsIndex, cols: typing.SupportsInt | typing.SupportsIndex, isa: str | None = None, threads: typing.SupportsInt | typing.SupportsIndex = 1) -> numpy.typing.NDArray[numpy.float32]:
    """
    W @ x per row of x: tiles uint8 [rows / 16, cols / 32, 400], x float32 [n, cols] -> float32 [n, rows].
    
    isa: one of isas(); None: the one that SPECDEC_ISA names, otherwise the best
    threads: 1..1024, which split the rows of W
    x is rounded to int8 in blocks of 32 with one float32 scale each.
    
    The result has the same bits for every isa and number of threads, and a row of it depends on its row of x alone. NaN
    or infinity in a row of x makes that row of the result NaN.
    ValueError: wrong dtype or shape, unknown or unsupported isa, threads out of range.
    """
def pack(codes: numpy.ndarray, scales: numpy.ndarray) -> numpy.typing.NDArray[numpy.uint8]:
    """
    codes uint8 [rows, cols], scales uint8 [rows, cols / 32] -> tiles uint8 [rows / 16, cols / 32, 400].
    
    ValueError: wrong dtype or shape, rows not a multiple of 16, cols not a multiple of 32, a code above 63.
    """
def quantize(x: numpy.ndarray, scale: str = 'mse') -> tuple[numpy.typing.NDArray[numpy.uint8], numpy.typing.NDArray[numpy.uint8]]:
    """
    x float32 [rows, cols] -> (codes uint8 [rows, cols] of 0..63, scales uint8 [rows, cols / 32] of 1..253).
    
    scale: "ocp" is floor(log2(max |x|)) - floor(log2(largest code)) per block; "mse" is, of that scale and its two
        neighbours, the one with the least squared error. A block of zeros has scale 127.
    Rounding is to nearest even and saturates; minus zero keeps its sign.
    
    ValueError: x not float32, not 2-D, cols not a multiple of 32, or a value that is not finite (the message has its
        index).
    """
def unpack(tiles: numpy.ndarray, rows: typing.SupportsInt | typing.SupportsIndex, cols: typing.SupportsInt | typing.SupportsIndex) -> tuple[numpy.typing.NDArray[numpy.uint8], numpy.typing.NDArray[numpy.uint8]]:
    """
    tiles uint8 [rows / 16, cols / 32, 400] -> (codes uint8 [rows, cols], scales uint8 [rows, cols / 32]).
    
    ValueError: wrong dtype or shape, rows not a multiple of 16, cols not a multiple of 32.
    """
