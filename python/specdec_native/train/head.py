"""An EAGLE-3 head as llama.cpp computes it: one layer over the target's hidden rows that drafts in chains.

The cell of token n reads the target's rows of token n - 1 and the embedding of token n, and predicts token n + 1. After
the first draft of a chain there are no rows of the target: each step reads the previous step's state instead.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .shape import Shape


class Head(nn.Module):
    """Parameters are named like the file's tensors, with "_" for ".". Embeddings and output matrix are the target's and
    are not trained."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        s, d = shape, shape.head_width
        self.shape = shape

        def matrix(outputs: int, inputs: int, scale: float = 1.0) -> nn.Parameter:
            return nn.Parameter(torch.randn(outputs, inputs) * (scale * inputs**-0.5))

        def ones() -> nn.Parameter:
            return nn.Parameter(torch.ones(s.width))

        self.fc = nn.Parameter(torch.zeros(s.width, len(s.layers) * s.width))
        self.register_buffer(
            "row_scale", torch.ones(len(s.layers) * s.width)
        )  # some columns are 1000 times as large as others
        self.attn_norm, self.attn_norm_2, self.ffn_norm, self.output_norm = ones(), ones(), ones(), ones()
        self.attn_q, self.attn_output = matrix(s.heads * d, 2 * s.width), matrix(s.width, s.heads * d, 0.1)
        self.attn_k, self.attn_v = matrix(s.kv_heads * d, 2 * s.width), matrix(s.kv_heads * d, 2 * s.width)
        self.ffn_gate, self.ffn_up = matrix(s.feed_forward, s.width), matrix(s.feed_forward, s.width)
        self.ffn_down = matrix(s.width, s.feed_forward, 0.1)

    def go_on(self, row_scale: Tensor) -> None:
        """Changes the scale of the columns, not the function."""
        with torch.no_grad():
            self.fc *= self.row_scale / row_scale
            self.row_scale.copy_(row_scale)

    def _normal(self, x: Tensor, weight: Tensor) -> Tensor:
        return F.rms_norm(x, (self.shape.width,), weight.to(x.dtype), self.shape.epsilon)

    def _rotated(self, x: Tensor, start: int) -> Tensor:
        """x [..., cells, head_width]: pairs (2i, 2i + 1) are rotated by position * base^(-2i / head_width)."""
        d = self.shape.head_width
        frequencies = self.shape.rope_base ** (-torch.arange(0, d, 2, device=x.device) / d)
        angles = torch.outer(torch.arange(start, start + x.shape[-2], device=x.device), frequencies)
        even, odd = x[..., 0::2], x[..., 1::2]
        cos, sin = angles.cos(), angles.sin()
        return torch.stack((even * cos - odd * sin, even * sin + odd * cos), -1).flatten(-2)

    def steps(self, rows: Tensor, embeddings: Tensor, chains: int, count: int) -> Iterator[Tensor]:
        """rows [B, T, layers * width] of tokens 0 to T - 1, embeddings [B, T, width] of tokens 1 to T -> yields the
        states [B, T, width] of `count` drafting steps, which predict tokens 2 to T + 1.

        Step s reads each token as draft s of a chain of accepted drafts (step 0 reads the target's rows). The first s
        cells have no such state; theirs is meaningless. Steps after the first are computed for `chains` sequences only.
        """
        s = self.shape
        length = rows.shape[1]
        read = self._normal(embeddings, self.attn_norm)
        hidden = F.linear(rows * self.row_scale, self.fc)
        at = torch.arange(length, device=rows.device)
        behind = at[:, None] - at[None, :]
        keys: list[Tensor] = []
        values: list[Tensor] = []
        for step in range(count):
            if step == 1:
                read, hidden = read[:chains], hidden[:chains]
                keys, values = [keys[0][:chains]], [values[0][:chains]]
            x = torch.cat((read, self._normal(hidden, self.attn_norm_2)), -1)
            q, k, v = (
                F.linear(x, weight).unflatten(-1, (-1, s.head_width)).transpose(1, 2)
                for weight in (self.attn_q, self.attn_k, self.attn_v)
            )
            group = s.heads // s.kv_heads
            keys.append(self._rotated(k, 1).repeat_interleave(group, 1))
            values.append(v.repeat_interleave(group, 1))
            # A cell sees the text up to the start of its chain, and each draft of the chain in its own state.
            parts = [behind >= step] + [behind == step - i for i in range(1, step + 1)]
            mask = torch.cat(parts, 1)
            mask[:step, :length] |= behind[:step] == 0  # softmax needs at least one key
            attended = F.scaled_dot_product_attention(
                self._rotated(q, 1), torch.cat(keys, 2), torch.cat(values, 2), attn_mask=mask
            )
            inner = hidden + F.linear(attended.transpose(1, 2).flatten(2), self.attn_output)
            y = self._normal(inner, self.ffn_norm)
            state = inner + F.linear(F.silu(F.linear(y, self.ffn_gate)) * F.linear(y, self.ffn_up), self.ffn_down)
            yield state
            hidden = F.pad(state[:, :-1], (0, 0, 1, 0))

    def logits(self, state: Tensor, output: Tensor) -> Tensor:
        """output [vocabulary, width]: the target's rows of the head's tokens."""
        return F.linear(self._normal(state, self.output_norm), output)
