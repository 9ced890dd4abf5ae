"""python train_block.py STEPS [TARGET.gguf]: a block drafter for a target that stays as it is -> block.pt.

Each place learns the target's distribution there, and its confidence the probability that a draft of it is accepted.
Only the drafter is trained; optimisers and data are those of the pair.
"""

import pathlib
import sys

import gguf
import numpy as np
import torch
import torch.nn.functional as F
from block import BLOCK, BlockDrafter, read
from export import names
from model import CONFIGS, Llama
from train import LENGTH, Muon, Windows

TOKENS, TEXTS, ANCHORS = 256, 1, 32  # of a step: each text's, texts, and blocks in each
FADE = 0.8  # a place counts as much less than the one before: fewer drafts get there

BUNDLED = pathlib.Path(__file__).parents[1] / "stdlib-target-f16.gguf"


def load_target(path) -> Llama:
    """The inverse of export.py."""
    tensors = {t.name: torch.from_numpy(np.array(t.data, dtype=np.float32)) for t in gguf.GGUFReader(path).tensors}
    target = Llama(CONFIGS["target"]).eval().requires_grad_(False)
    target.load_state_dict({ours: tensors[theirs] for ours, theirs in names("target", target.c.layers).items()})
    return target


def blocks(target, drafter, tokens, generator):
    """The drafter's logits and confidences at random places of the texts, and the target's distributions."""
    rows, wanted = read(target, tokens)
    anchors = 1 + torch.randperm(tokens.shape[1] - BLOCK - 1, generator=generator)[:ANCHORS]
    logits, confidences = drafter(target, tokens, rows, anchors)
    return logits, confidences, wanted[:, anchors[:, None] + torch.arange(BLOCK)].softmax(-1)


def evaluate(target, drafter):
    """The acceptance of every place, if the drafts before it were accepted, on text that was not trained on; and the
    Brier scores of the confidences and of the likeliest token's probability, against the acceptance."""
    held_out, generator = Windows("val.bin", torch.Generator().manual_seed(5)), torch.Generator().manual_seed(6)
    kept, scores = np.zeros(BLOCK), np.zeros(2)
    for _ in range(4):
        logits, confidences, wanted = blocks(target, drafter, held_out.next()[:, :-1], generator)
        drafts = logits.softmax(-1)
        accepted = torch.minimum(drafts, wanted).sum(-1)
        kept += accepted.mean((0, 1)).numpy() / 4
        for i, guess in enumerate((confidences.sigmoid(), drafts.amax(-1))):
            scores[i] += (guess - accepted).square().mean().item() / 4
    return kept, scores


def main(steps, path=BUNDLED):
    torch.manual_seed(0)
    target = load_target(path)
    drafter = BlockDrafter(target.c)
    own = dict(drafter.named_parameters())
    others = [p for name, p in own.items() if p.dim() == 1 or name.startswith(("w1", "w2", "confidence"))]
    hidden = [p for p in own.values() if all(p is not other for other in others)]
    muon, adam = Muon(hidden), torch.optim.AdamW(others, lr=3e-3, betas=(0.9, 0.95), weight_decay=0.0)
    train, generator = Windows("train.bin", torch.Generator().manual_seed(1)), torch.Generator().manual_seed(2)
    weights = FADE ** torch.arange(BLOCK)
    waiting = []
    for step in range(steps):
        scale = max(0.02, min(1, (step + 1) / 20) * min(1, (1 - step / steps) / 0.55))
        if not waiting:
            waiting = list(train.next()[:, :LENGTH].reshape(-1, TOKENS).split(TEXTS))
        logits, confidences, wanted = blocks(target, drafter, waiting.pop(), generator)
        losses = -(wanted * logits.log_softmax(-1)).sum(-1)
        accepted = torch.minimum(logits.detach().softmax(-1), wanted).sum(-1)
        doubts = F.binary_cross_entropy_with_logits(confidences, accepted)
        ((losses * weights).mean() / weights.mean() + doubts).backward()
        for group in adam.param_groups:
            group["lr"] = 3e-3 * scale
        muon.step(0.02 * scale)
        adam.step()
        adam.zero_grad(set_to_none=True)
        if (step + 1) % 100 == 0 or step + 1 == steps:
            kept = " ".join(f"{share:.2f}" for share in accepted.mean((0, 1)).tolist())
            print(step + 1, f"loss {losses.mean().item():.3f}, accepted by place {kept}", flush=True)
            torch.save(drafter.state_dict(), "block.pt")
    with torch.no_grad():
        kept, scores = evaluate(target, drafter.eval())
    print("held out, by place: accepted", kept.round(3), "; error of confidences and of probabilities", scores.round(4))


if __name__ == "__main__":
    main(int(sys.argv[1]), *sys.argv[2:])
