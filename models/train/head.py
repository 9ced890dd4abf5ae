"""An EAGLE-3 drafting head for the target, as llama.cpp computes it: one layer over the target's hidden rows.

The cell of token n reads the target's hidden rows of token n - 1 with token n's embedding, and predicts token n + 1. In
a chain of drafts the target's rows are missing: each further step reads what the step before made of the token before.
The embeddings and the output matrix are the target's.
"""

import torch
import torch.nn as nn
import torch.nn.functional as F
from model import Config, Llama, RMSNorm, rotate

LAYERS = (2, 5, 7)  # of the target, whose inputs are read; llama.cpp does not give the output of a llama's last layer


class Head(nn.Module):
    def __init__(self, c: Config):
        super().__init__()
        self.c = c

        def linear(inputs, outputs):
            return nn.Linear(inputs, outputs, bias=False)

        self.fc = linear(len(LAYERS) * c.dim, c.dim)
        self.n_token, self.n_hidden = RMSNorm(c.dim, c.eps), RMSNorm(c.dim, c.eps)
        self.q, self.o = linear(2 * c.dim, c.heads * c.head_dim), linear(c.heads * c.head_dim, c.dim)
        self.k, self.v = linear(2 * c.dim, c.kv_heads * c.head_dim), linear(2 * c.dim, c.kv_heads * c.head_dim)
        self.n2, self.norm = RMSNorm(c.dim, c.eps), RMSNorm(c.dim, c.eps)
        self.gate, self.up, self.down = linear(c.dim, c.ffn), linear(c.dim, c.ffn), linear(c.ffn, c.dim)
        for p in self.parameters():
            if p.dim() == 2:
                nn.init.normal_(p, std=0.02)

    def steps(self, target: Llama, tokens, rows, chains: int, count: int):
        """tokens [B, T], rows [B, T, layers * dim] of the target -> the hidden states [B, T, dim] of `count` steps of
        drafting.

        State s at n: token n was read as draft s of a chain, one that the text agrees with; 0: with the target's row.
        States after the first are made for `chains` texts only.
        """
        length = tokens.shape[1]
        embedded = self.n_token(target.emb(tokens))
        hidden = before(self.fc(rows))
        at = torch.arange(length)
        keys, values = [], []
        for step in range(count):
            if step == 1:
                embedded, hidden = embedded[:chains], hidden[:chains]
                keys, values = [keys[0][:chains]], [values[0][:chains]]
            x = torch.cat((embedded, self.n_hidden(hidden)), -1)
            q, k, v = (
                linear(x).unflatten(-1, (-1, self.c.head_dim)).transpose(1, 2) for linear in (self.q, self.k, self.v)
            )
            q, k = rotate(q, target.cos, target.sin), rotate(k, target.cos, target.sin)
            group = self.c.heads // self.c.kv_heads
            keys.append(k.repeat_interleave(group, 1))
            values.append(v.repeat_interleave(group, 1))
            # All cells of the text except the last `step`, which were drafts: each in the state that it was read in.
            behind = at[:, None] - at[None, :]
            mask = torch.cat([behind >= step] + [behind == step - i for i in range(1, step + 1)], 1) if step else None
            attended = F.scaled_dot_product_attention(
                q, torch.cat(keys, 2), torch.cat(values, 2), attn_mask=mask, is_causal=step == 0
            )
            inner = hidden + self.o(attended.transpose(1, 2).flatten(2))
            h = self.n2(inner)
            state = inner + self.down(F.silu(self.gate(h)) * self.up(h))
            yield state
            hidden = before(state)

    def logits(self, target: Llama, state):
        return F.linear(self.norm(state), target.emb.weight)


def before(rows):
    """rows [B, T, dim] moved one token on: that of the token before, and zeros for the first."""
    return F.pad(rows[:, :-1], (0, 0, 1, 0))


@torch.no_grad()
def read(target: Llama, tokens):
    """tokens [B, T] -> the inputs of LAYERS side by side [B, T, layers * dim], and the logits."""
    x, rows = target.emb(tokens), []
    for i, block in enumerate(target.blocks):
        if i in LAYERS:
            rows.append(x)
        x = block(x, target.cos, target.sin)
    return torch.cat(rows, -1), F.linear(target.norm(x), target.emb.weight)
