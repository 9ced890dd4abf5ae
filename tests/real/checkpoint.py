"""Writes a tiny random Llama checkpoint as people publish them, safetensors and tokenizer.model, into a folder.

    python checkpoint.py FOLDER TEXT

Prints as JSON the tokens of a sentence and the log-probability that transformers gives each of them after those before
it. For tests/real/test_conversion.py, in an environment with requirements/convert.txt.
"""

import json
import pathlib
import sys

import sentencepiece
import torch
import transformers

SENTENCE = "A small draft model proposes tokens, the target model verifies all of them."


def main() -> None:
    folder, text = pathlib.Path(sys.argv[1]), sys.argv[2]
    folder.mkdir()
    sentencepiece.SentencePieceTrainer.train(
        input=text,
        model_prefix=str(folder / "tokenizer"),
        model_type="bpe",
        vocab_size=640,
        byte_fallback=True,
        minloglevel=2,
    )
    (folder / "tokenizer.vocab").unlink()
    tokenizer = sentencepiece.SentencePieceProcessor(model_file=str(folder / "tokenizer.model"))

    torch.manual_seed(1)
    config = transformers.LlamaConfig(
        vocab_size=tokenizer.vocab_size(),
        hidden_size=64,
        intermediate_size=160,
        num_hidden_layers=3,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=256,
        initializer_range=0.2,  # so that the rounding of weights changes little
        bos_token_id=tokenizer.bos_id(),
        eos_token_id=tokenizer.eos_id(),
    )
    model = transformers.LlamaForCausalLM(config).to(torch.bfloat16)
    model.save_pretrained(folder, max_shard_size="100KB")

    tokens = [tokenizer.bos_id(), *tokenizer.encode(SENTENCE)]
    with torch.no_grad():
        rows = model.float()(torch.tensor([tokens])).logits[0].log_softmax(-1)
    logprobs = [float(rows[i - 1, token]) for i, token in enumerate(tokens) if i > 0]
    print(json.dumps({"sentence": SENTENCE, "tokens": tokens, "logprobs": logprobs}))


main()
