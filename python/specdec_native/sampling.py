"""Sampling and verification on numpy arrays: the engine's own code, for tests, teaching and other engines."""

from ._core.sampling import Verdict, predicted_speedup, race, residual, transform, verify_block, verify_token

__all__ = ["Verdict", "predicted_speedup", "race", "residual", "transform", "verify_block", "verify_token"]
