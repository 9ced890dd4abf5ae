"""python train_head.py STEPS [TARGET.gguf]: a drafting head for a target that stays as it is -> head.pt.

The head learns the target's distributions in chains of CHAIN drafts, the later drafts from fewer texts because fewer
chains get there. Only its own layer is trained; optimisers and data are those of the pair.
"""

import pathlib
import sys

import gguf
import numpy as np
import torch
import torch.nn.functional as F
from export import names
from head import Head, read
from model import CONFIGS, Llama
from train import LENGTH, Muon, Windows

CHAIN = 4  # drafts
TOKENS, TEXTS, CHAINS = 256, 2, 1  # of a step: each text's, texts, and those of them with the drafts after the first
BUNDLED = pathlib.Path(__file__).parents[1] / "stdlib-target-f16.gguf"


def load_target(path) -> Llama:
    """The inverse of export.py."""
    tensors = {t.name: torch.from_numpy(np.array(t.data, dtype=np.float32)) for t in gguf.GGUFReader(path).tensors}
    target = Llama(CONFIGS["target"]).eval().requires_grad_(False)
    target.load_state_dict({ours: tensors[theirs] for ours, theirs in names("target", target.c.layers).items()})
    return target


def evaluate(target: Llama, head: Head):
    """The acceptance of every draft of a chain, if those before it were accepted, on text that was not trained on."""
    held_out = Windows("val.bin", torch.Generator().manual_seed(5))
    kept, same = np.zeros(CHAIN), np.zeros(CHAIN)
    for _ in range(12):
        tokens = held_out.next()[:, :-1]
        rows, wanted = read(target, tokens)
        for step, state in enumerate(head.steps(target, tokens, rows, len(tokens), CHAIN)):
            logits = head.logits(target, state)[:, step:]
            ours, theirs = logits.float().softmax(-1), wanted[:, step:].float().softmax(-1)
            kept[step] += torch.minimum(ours, theirs).sum(-1).mean().item() / 12
            same[step] += (ours.argmax(-1) == theirs.argmax(-1)).float().mean().item() / 12
    return kept, same


def main(steps, path=BUNDLED):
    torch.manual_seed(0)
    target = load_target(path)
    head = Head(target.c)
    hidden, norms = [p for p in head.parameters() if p.dim() == 2], [p for p in head.parameters() if p.dim() == 1]
    muon, adam = Muon(hidden), torch.optim.AdamW(norms, lr=3e-3, betas=(0.9, 0.95), weight_decay=0.0)
    train = Windows("train.bin", torch.Generator().manual_seed(1))
    waiting = []
    for step in range(steps):
        scale = max(0.02, min(1, (step + 1) / 20) * min(1, (1 - step / steps) / 0.55))
        if not waiting:
            waiting = list(train.next()[:, :LENGTH].reshape(-1, TOKENS).split(TEXTS))
        tokens = waiting.pop()
        with torch.autocast("cpu", torch.bfloat16):
            rows, wanted = read(target, tokens)
            wanted = wanted.float().softmax(-1)
            losses = []
            for draft, state in enumerate(head.steps(target, tokens, rows, CHAINS, CHAIN)):
                logits = head.logits(target, state)[:, draft:].float()
                losses.append(F.cross_entropy(logits.flatten(0, 1), wanted[: len(state), draft:].flatten(0, 1)))
        (losses[0] + CHAINS / TEXTS * sum(losses[1:])).backward()
        for group in adam.param_groups:
            group["lr"] = 3e-3 * scale
        muon.step(0.02 * scale)
        adam.step()
        adam.zero_grad(set_to_none=True)
        if (step + 1) % 100 == 0 or step + 1 == steps:
            print(step + 1, "losses", *(f"{loss.item():.3f}" for loss in losses), flush=True)
            torch.save(head.state_dict(), "head.pt")
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        kept, same = evaluate(target, head.eval())
    print("held out, by draft of a chain: accepted", kept.round(3), "same argmax", same.round(3))


if __name__ == "__main__":
    main(int(sys.argv[1]), *sys.argv[2:])
