"""Trains a drafting head (EAGLE-3) for any target whose layers can be read, from what the engine makes of its texts.

`specdec-train --target model.gguf --text FILES... -o drafter.gguf`, or `python -m specdec_native.train`. Needs
`pip install "specdec_native[train]"`. A file for each step: `text` (documents, held-out ones apart), `rows` (what the
target makes of them), `target_weights` and `shape` (what the head looks like), `head` (its layers), `begin` (their
beginning in closed form), `loss`, `trainer` (the loop), `head_file` (GGUF), `speed` (what it will gain) and `command`.
"""
