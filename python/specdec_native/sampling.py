"""The engine's sampling and verification functions on numpy arrays, for tests, teaching and other engines."""

from ._core.sampling import Verdict, gumbel_max, predicted_speedup, residual, transform, verify_block, verify_token

__all__ = ["Verdict", "gumbel_max", "predicted_speedup", "residual", "transform", "verify_block", "verify_token"]
