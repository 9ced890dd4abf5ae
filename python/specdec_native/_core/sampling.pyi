"""
The sampling and verification functions of lossless speculative decoding on numpy arrays. Pure functions: random
numbers are arguments.

Bad values raise ValueError (TypeError for arguments that are not arrays of numbers): NaN, wrong shapes, rows that do
not sum to 1 (to 1e-6), token ids outside the vocabulary, uniforms outside [0, 1).
"""
from __future__ import annotations
import collections.abc
import numpy
import numpy.typing
import typing
__all__: list[str] = ['Verdict', 'gumbel_max', 'predicted_speedup', 'residual', 'transform', 'verify_block', 'verify_token']
class Verdict:
    """
    The result of a verification. Unpacks as (num_accepted, next_token).
    """
    def __eq__(self, other: typing.Any) -> bool:
        ...
    def __hash__(self) -> int:
        ...
    def __init__(self, num_accepted: typing.SupportsInt | typing.SupportsIndex, next_token: typing.SupportsInt | typing.SupportsIndex) -> None:
        ...
    def __iter__(self) -> collections.abc.Iterator[int]:
        ...
    def __repr__(self) -> str:
        ...
    @property
    def next_token(self) -> int:
        """
        The correction token; after full acceptance, the bonus token.
        """
    @property
    def num_accepted(self) -> int:
        """
        How many drafted tokens are kept, 0..K.
        """
def gumbel_max(probs: typing.Annotated[numpy.typing.ArrayLike, numpy.float64], *, seed: typing.SupportsInt | typing.SupportsIndex, position: typing.SupportsInt | typing.SupportsIndex) -> int:
    """
    Gumbel-max sampling: argmax(log(probs) + Gumbel noise), which is distributed as probs. The noise of a token
    depends only on the seed, the position and the token id.
    
    probs: [V]; seed: 0 to 2^64 - 1; position: the token's index in the sequence, 0 or more
    
    Drafter-invariant speculative decoding accepts a draft if it equals the target's choice by this function. Similar
    distributions usually choose the same token. Daliri, Musco and Suresh, arXiv:2408.07978.
    """
def predicted_speedup(rate: typing.SupportsFloat | typing.SupportsIndex, num_draft_tokens: typing.SupportsInt | typing.SupportsIndex, t_draft: typing.SupportsFloat | typing.SupportsIndex, t_target: typing.SupportsFloat | typing.SupportsIndex, t_target_batch: typing.SupportsFloat | typing.SupportsIndex | None = None) -> float:
    """
    Predicted speedup over plain decoding: rate * (K + 1) * t_target / (K * t_draft + t_target_batch),
    K = num_draft_tokens.
    
    rate: tokens per cycle / (K + 1) = (1 + acceptance_rate * K) / (K + 1), in (0, 1]
    t_draft, t_target: time of one draft pass and of one target pass over one token, in the same unit
    t_target_batch: time of one target pass over K + 1 tokens; None: t_target
    Leviathan et al., arXiv:2211.17192, section 3.3, with a measured rate.
    """
def residual(target_probs: typing.Annotated[numpy.typing.ArrayLike, numpy.float64], draft_probs: typing.Annotated[numpy.typing.ArrayLike, numpy.float64]) -> numpy.typing.NDArray[numpy.float64]:
    """
    normalise(max(0, target - draft)), float64 [V]: the distribution of the correction token after a rejection.
    
    target_probs, draft_probs: [V], each summing to 1. If they are equal, the residual is empty and target_probs is
        returned.
    Chen et al., arXiv:2302.01318, algorithm 2; Leviathan et al., arXiv:2211.17192, section 2.3.
    """
def transform(logits: typing.Annotated[numpy.typing.ArrayLike, numpy.float64], *, temperature: typing.SupportsFloat | typing.SupportsIndex = 1.0, top_k: typing.SupportsInt | typing.SupportsIndex = 0, top_p: typing.SupportsFloat | typing.SupportsIndex = 1.0, min_p: typing.SupportsFloat | typing.SupportsIndex = 0.0, repeat_penalty: typing.SupportsFloat | typing.SupportsIndex = 1.0, frequency_penalty: typing.SupportsFloat | typing.SupportsIndex = 0.0, presence_penalty: typing.SupportsFloat | typing.SupportsIndex = 0.0, penalty_last_n: typing.SupportsInt | typing.SupportsIndex = 64, logit_bias: collections.abc.Mapping[typing.SupportsInt | typing.SupportsIndex, typing.SupportsFloat | typing.SupportsIndex] | None = None, history: typing.Annotated[numpy.typing.ArrayLike, numpy.float64] | None = None) -> numpy.typing.NDArray[numpy.float64]:
    """
    The distribution to sample from, given a row of logits: float64 [V], summing to 1.
    
    logits: [V], any real dtype, computed in float64; -inf means probability zero. Order, as in llama.cpp: logit bias,
    penalties, top-k, top-p, min-p, temperature. Ties go to the lower token id.
    
    temperature: >= 0; below 1e-5 gives the one-hot of the highest logit
    top_k: keep the k highest; 0 is off
    top_p: in (0, 1]: keep the smallest set of most probable tokens whose probabilities reach top_p (before temperature)
    min_p: in [0, 1]: keep tokens at least min_p times as probable as the most probable one (before temperature)
    repeat_penalty: > 0: divides positive and multiplies negative logits of tokens among the last penalty_last_n of
        history
    frequency_penalty: subtracted from the logit once per occurrence among those tokens
    presence_penalty: subtracted once if the token occurs among them
    penalty_last_n: -1 is all of history, 0 turns the penalties off
    logit_bias: {token: bias}, added; -inf bans the token
    history: integers [n], the tokens so far, the newest last
    
    ValueError: NaN or +inf logits, no finite logit, a parameter or token id out of range.
    """
def verify_block(draft_tokens: typing.Annotated[numpy.typing.ArrayLike, numpy.float64], draft_probs: typing.Annotated[numpy.typing.ArrayLike, numpy.float64], target_probs: typing.Annotated[numpy.typing.ArrayLike, numpy.float64], uniforms: typing.Annotated[numpy.typing.ArrayLike, numpy.float64]) -> Verdict:
    """
    Block verification: how many drafted tokens to keep, and the token that follows them. Arguments as for
    verify_token.
    
    The drafts are verified jointly: the longest prefix whose test succeeds is kept; uniforms[i] tests the prefix that
    ends with draft_tokens[i]. The output has the target's distribution, as with verify_token; the expected number of
    accepted tokens is at least as large.
    Sun et al., arXiv:2403.10444, algorithm 2.
    """
def verify_token(draft_tokens: typing.Annotated[numpy.typing.ArrayLike, numpy.float64], draft_probs: typing.Annotated[numpy.typing.ArrayLike, numpy.float64], target_probs: typing.Annotated[numpy.typing.ArrayLike, numpy.float64], uniforms: typing.Annotated[numpy.typing.ArrayLike, numpy.float64]) -> Verdict:
    """
    Modified Rejection Sampling: how many drafted tokens to keep, and the token that follows them.
    
    draft_tokens: integers [K], draft_tokens[i] drawn from draft_probs[i]
    draft_probs:  [K, V], the distributions that were sampled from (one-hot rows for argmax drafting)
    target_probs: [K+1, V]
    uniforms:     [K+1], each in [0, 1), independent of the drafting: uniforms[i] decides on draft_tokens[i],
                  uniforms[K] draws the last token by inverse CDF in ascending token order
    
    draft_tokens[i] is accepted iff uniforms[i] * draft_prob < target_prob; the first rejection draws the correction
    token from residual(target_probs[i], draft_probs[i]), full acceptance the bonus token from target_probs[K]. Then
    draft_tokens[:num_accepted] followed by next_token has the target's distribution, for any draft.
    Chen et al., arXiv:2302.01318, algorithm 2 and theorem 1; Leviathan et al., arXiv:2211.17192, algorithm 1.
    
    ValueError, besides the module's: a drafted token of draft probability zero.
    """
