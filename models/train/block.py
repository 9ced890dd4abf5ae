"""A block drafter (DSpark) for the target, as llama.cpp computes it: layers that read the target's hidden rows of all
tokens before the last one, and fill a block behind it in one pass.

Place i of the block [last token, mask, mask, ...] predicts the token after it. A bias of low rank by the token before
makes the places agree with each other; confidences say how likely a draft of a place is to be accepted. The embeddings
and the output matrix are the target's.
"""

import torch
import torch.nn as nn
import torch.nn.functional as F
from model import Config, Llama, RMSNorm

LAYERS = (2, 5, 7)  # of the target, whose inputs are read; llama.cpp does not give the output of a llama's last layer
BLOCK, MASK, RANK, DEPTH = 8, 0, 64, 2  # places, the token of those that are empty, of the bias, layers


@torch.no_grad()
def read(target: Llama, tokens):
    """tokens [B, T] -> the inputs of LAYERS side by side [B, T, layers * dim], and the logits."""
    x, rows = target.emb(tokens), []
    for i, block in enumerate(target.blocks):
        if i in LAYERS:
            rows.append(x)
        x = block(x, target.cos, target.sin)
    return torch.cat(rows, -1), F.linear(target.norm(x), target.emb.weight)


def turn(x, positions, base):
    """x [B, heads, n, head_dim], halves rotated by the positions [n]."""
    half = x.shape[-1] // 2
    angles = positions[:, None] * base ** (-torch.arange(half) / half)
    cos, sin = angles.cos(), angles.sin()
    first, second = x[..., :half], x[..., half:]
    return torch.cat((first * cos - second * sin, first * sin + second * cos), -1)


class Layer(nn.Module):
    def __init__(self, c: Config):
        super().__init__()
        self.c = c

        def linear(inputs, outputs):
            return nn.Linear(inputs, outputs, bias=False)

        self.n1, self.n2 = RMSNorm(c.dim, c.eps), RMSNorm(c.dim, c.eps)
        self.n_q, self.n_k = RMSNorm(c.head_dim, c.eps), RMSNorm(c.head_dim, c.eps)
        self.q, self.o = linear(c.dim, c.heads * c.head_dim), linear(c.heads * c.head_dim, c.dim)
        self.k, self.v = linear(c.dim, c.kv_heads * c.head_dim), linear(c.dim, c.kv_heads * c.head_dim)
        self.gate, self.up, self.down = linear(c.dim, c.ffn), linear(c.dim, c.ffn), linear(c.ffn, c.dim)

    def forward(self, x, features, at, of_features, mask):
        """x [B, n, dim] of blocks, features [B, T, dim]; their positions [n] and [T]; mask [n, T + n]."""

        def split(t):
            return t.unflatten(-1, (-1, self.c.head_dim)).transpose(1, 2)

        h = self.n1(x)
        both, positions = torch.cat((features, h), 1), torch.cat((of_features, at))
        q = turn(self.n_q(split(self.q(h))), at, self.c.rope_base)
        k = turn(self.n_k(split(self.k(both))), positions, self.c.rope_base)
        group = self.c.heads // self.c.kv_heads
        k, v = k.repeat_interleave(group, 1), split(self.v(both)).repeat_interleave(group, 1)
        attended = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        x = x + self.o(attended.transpose(1, 2).flatten(2))
        h = self.n2(x)
        return x + self.down(F.silu(self.gate(h)) * self.up(h))


class BlockDrafter(nn.Module):
    def __init__(self, c: Config):
        super().__init__()
        self.c = c
        self.fc = nn.Linear(len(LAYERS) * c.dim, c.dim, bias=False)
        self.n_features, self.norm = RMSNorm(c.dim, c.eps), RMSNorm(c.dim, c.eps)
        self.layers = nn.ModuleList(Layer(c) for _ in range(DEPTH))
        self.w1, self.w2 = nn.Linear(RANK, c.vocabulary, bias=False), nn.Linear(RANK, c.vocabulary, bias=False)
        self.confidence = nn.Linear(c.dim + RANK, 1)
        for p in self.parameters():
            if p.dim() == 2:
                nn.init.normal_(p, std=0.02)

    def forward(self, target: Llama, tokens, rows, anchors):
        """tokens [B, T], rows [B, T, layers * dim] of the target, anchors [A] -> of the blocks behind these tokens, if
        the text goes on as it does, logits [B, A, BLOCK, vocabulary] and the logits of confidences [B, A, BLOCK].
        """
        length, count = tokens.shape[1], len(anchors)
        places = anchors[:, None] + torch.arange(BLOCK)
        block = F.pad(tokens[:, anchors, None], (0, BLOCK - 1), value=MASK).flatten(1)
        of_block, text = torch.arange(count).repeat_interleave(BLOCK), torch.arange(length)
        mask = torch.cat((text < anchors[of_block, None], of_block[:, None] == of_block), 1)
        x, features = target.emb(block), self.n_features(self.fc(rows))
        for layer in self.layers:
            x = layer(x, features, places.flatten(), text, mask)
        x = self.norm(x).unflatten(1, (count, BLOCK))
        before = self.w1.weight[tokens[:, places]]
        logits = F.linear(x, target.emb.weight) + self.w2(before)
        return logits, self.confidence(torch.cat((x, before), -1).detach()).squeeze(-1)
