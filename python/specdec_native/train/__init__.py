"""Trains a drafting head (EAGLE-3) for a target, from the hidden rows that the engine computes for given text.

`specdec-train --target model.gguf --text FILES... -o drafter.gguf`, or `python -m specdec_native.train`. Needs
`pip install "specdec_native[train]"`. One file for each step: `text` (documents; some are held out), `rows` (the
target's hidden rows for them), `target_weights` and `shape` (the head's dimensions), `head` (its layers), `begin` (its
initial weights in closed form), `loss`, `trainer` (the loop), `head_file` (GGUF), `speed` (the expected gain) and
`command`.
"""
