"""python digits.py OUT.gguf [--force]: trains an encoder and projector (llama.cpp's "mlp") with which the bundled
target reads a picture of a digit, on scikit-learn's set of 8x8 pixels. The target is frozen.

First the encoder learns to tell digits apart, which is cheap; then encoder and projector learn the rows after which
the target answers. Prints the share of right answers on held-out pictures.
"""

import pathlib
import sys

import gguf
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from model import CONFIGS, Llama
from sklearn.datasets import load_digits
from tokenizers import Tokenizer

from specdec_native._core import Error, OutputFile

TARGET = pathlib.Path(__file__).parents[1] / "stdlib-target-f16.gguf"
TOKENIZER = pathlib.Path(__file__).parent / "tokenizer.json"
IMAGE, PATCH, WIDTH, HEADS, FFN, LAYERS, HIDDEN = 32, 8, 64, 4, 128, 3, 128
ROWS = (IMAGE // PATCH) ** 2
EPS = 1e-5
HELD_OUT = 360  # the last ones
PICTURE, ANSWER = "\0", "\1"
# The answer is a token that begins with a space. What follows it in a template is read, but not learned.
PROMPTS = [
    f"{PICTURE}Which digit?{ANSWER}",
    f"{PICTURE}\nWhich digit?{ANSWER}",
    f"Which digit? {PICTURE}{ANSWER}",
    f"{PICTURE}digit ={ANSWER}",
    f"{PICTURE}\ndigit ={ANSWER}",
    f"# The digit in the picture\n{PICTURE}digit ={ANSWER}",
    f"{PICTURE}# The digit in the picture\ndigit ={ANSWER}",
    f"{PICTURE}def digit():\n    return{ANSWER}",
    f"Which digit?{PICTURE}{ANSWER}",
    f"Which digit is this?\n{PICTURE}{ANSWER}",
]
JOINS = ["\n", "\n\n", "\n# Next\n"]
END_OF_TEXT = 0


def data():
    """(pictures [N, 8, 8] from 0 to 1, digits [N]) of training and held out."""
    digits = load_digits()
    pictures, labels = torch.tensor(digits.images / 16.0).float(), torch.tensor(digits.target)
    return (pictures[:-HELD_OUT], labels[:-HELD_OUT]), (pictures[-HELD_OUT:], labels[-HELD_OUT:])


def larger(pictures, mode):
    """[N, 8, 8] -> [N, 1, IMAGE, IMAGE]"""
    corners = None if mode == "nearest" else False
    return F.interpolate(pictures[:, None], size=(IMAGE, IMAGE), mode=mode, align_corners=corners).clamp(0, 1)


def plain(pictures):
    """[N, 8, 8] -> [N, 3, IMAGE, IMAGE]: white on black, from -1 to 1, as llama.cpp enlarges them."""
    return (2 * larger(pictures, "bicubic") - 1).expand(-1, 3, -1, -1)


def varied(pictures, generator):
    """As pictures come: moved, turned, larger or smaller, of any size and contrast, black on white, with noise."""
    n = len(pictures)

    def uniform(low, high, *shape):
        return low + (high - low) * torch.rand(n, *shape, generator=generator)

    moved = uniform(0, 1) < 0.6  # the others stay where they are
    angle, scale, shift = uniform(-0.2, 0.2) * moved, 1 + uniform(-0.15, 0.35) * moved, uniform(-0.2, 0.2, 2, 1)
    turn = torch.stack([angle.cos(), -angle.sin(), angle.sin(), angle.cos()], -1).view(n, 2, 2) * scale[:, None, None]
    turn = torch.cat([turn, shift * moved[:, None, None]], -1)
    grid = F.affine_grid(turn, (n, 1, IMAGE, IMAGE), align_corners=False)
    mode = ("nearest", "bilinear", "bicubic")[int(torch.randint(3, (), generator=generator))]
    large = F.grid_sample(larger(pictures, mode), grid, align_corners=False)
    dark, light = uniform(0, 0.25, 1, 1, 1), uniform(0.7, 1, 1, 1, 1)
    large = dark + (light - dark) * large
    large = torch.where(uniform(0, 1, 1, 1, 1) < 0.5, 1 - large, large)
    large = large + uniform(-0.08, 0.08, 1, 1, 1).clamp(min=0) * torch.randn(large.shape, generator=generator)
    return (2 * large.clamp(0, 1) - 1).expand(-1, 3, -1, -1)


# ---- Encoder and projector, as llama.cpp's graph of LLaVA (tools/mtmd/models/llava.cpp)


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.ln1, self.ln2 = nn.LayerNorm(WIDTH, EPS), nn.LayerNorm(WIDTH, EPS)
        self.attn_q, self.attn_k, self.attn_v, self.attn_out = (nn.Linear(WIDTH, WIDTH) for _ in range(4))
        self.ffn_up, self.ffn_down = nn.Linear(WIDTH, FFN), nn.Linear(FFN, WIDTH)

    def forward(self, x):
        def split(t):
            return t.view(len(x), ROWS, HEADS, WIDTH // HEADS).transpose(1, 2)

        y = self.ln1(x)
        y = F.scaled_dot_product_attention(split(self.attn_q(y)), split(self.attn_k(y)), split(self.attn_v(y)))
        x = x + self.attn_out(y.transpose(1, 2).reshape(x.shape))
        return x + self.ffn_down(F.gelu(self.ffn_up(self.ln2(x)), approximate="tanh"))


class Projector(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.patch_embd = nn.Conv2d(3, WIDTH, PATCH, PATCH)
        self.position_embd = nn.Parameter(0.1 * torch.randn(ROWS, WIDTH))
        self.blk = nn.ModuleList(Layer() for _ in range(LAYERS))
        self.post_ln = nn.LayerNorm(WIDTH, EPS)
        self.mm0, self.mm2 = nn.Linear(WIDTH, HIDDEN), nn.Linear(HIDDEN, width)
        self.mm2.weight.data *= 0.2  # rows shorter than embeddings learn fastest
        self.mm2.bias.data *= 0.2

    def encode(self, pixels):
        """[N, 3, IMAGE, IMAGE] -> [N, ROWS, WIDTH]"""
        x = self.patch_embd(pixels).flatten(2).transpose(1, 2) + self.position_embd
        for layer in self.blk:
            x = layer(x)
        return self.post_ln(x)

    def forward(self, pixels):
        """[N, 3, IMAGE, IMAGE] -> [N, ROWS, width of the target]"""
        return self.mm2(F.gelu(self.mm0(self.encode(pixels)), approximate="tanh"))


def write(projector, path):
    w = gguf.GGUFWriter(path, "clip")
    w.add_name("stdlib-digits")
    w.add_description("Reads digits for stdlib-target; trained on scikit-learn's 8x8 digits (UCI, CC BY 4.0)")
    w.add_file_type(gguf.LlamaFileType.MOSTLY_F16)
    w.add_bool("clip.has_vision_encoder", True)
    w.add_string("clip.projector_type", "mlp")
    w.add_bool("clip.use_gelu", True)
    sizes = {"image_size": IMAGE, "patch_size": PATCH, "embedding_length": WIDTH, "feed_forward_length": FFN}
    sizes |= {"block_count": LAYERS, "attention.head_count": HEADS, "projection_dim": projector.mm2.out_features}
    for name, size in sizes.items():
        w.add_uint32(f"clip.vision.{name}", size)
    w.add_float32("clip.vision.attention.layer_norm_epsilon", EPS)
    w.add_array("clip.vision.feature_layer", [LAYERS])  # else the last but one
    w.add_array("clip.vision.image_mean", [0.5, 0.5, 0.5])
    w.add_array("clip.vision.image_std", [0.5, 0.5, 0.5])
    for name, tensor in projector.state_dict().items():
        name = "position_embd.weight" if name == "position_embd" else name
        name = name.replace("mm", "mm.") if name.startswith("mm") else f"v.{name}"
        halved = tensor.dim() >= 2 and "position" not in name
        w.add_tensor(name, tensor.numpy().astype(np.float16 if halved else np.float32))
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


# ---- The frozen target


def load_target():
    tensors = {t.name: torch.tensor(np.array(t.data)).float() for t in gguf.GGUFReader(TARGET).tensors}
    parts = {"q": "attn_q", "k": "attn_k", "v": "attn_v", "o": "attn_output", "n1": "attn_norm", "n2": "ffn_norm"}
    parts |= {name: f"ffn_{name}" for name in ("gate", "up", "down")}
    names = {"emb.weight": "token_embd.weight", "norm.weight": "output_norm.weight"}
    config = CONFIGS["target"]
    for i in range(config.layers):
        names |= {f"blocks.{i}.{ours}.weight": f"blk.{i}.{theirs}.weight" for ours, theirs in parts.items()}
    target = Llama(config)
    target.load_state_dict({ours: tensors[theirs] for ours, theirs in names.items()})
    return target.requires_grad_(False)


class Reader:
    """Prompts with pictures through the target."""

    def __init__(self, target, projector):
        self.target, self.projector = target, projector
        self.tokenizer = Tokenizer.from_file(str(TOKENIZER))
        self.answers = torch.tensor([self.tokens(f" {digit}")[0] for digit in range(10)])

    def tokens(self, text):
        return self.tokenizer.encode(text).ids

    def logits(self, prompt, pixels, labels):
        """prompt: with as many marks as there are pictures [N, 3, IMAGE, IMAGE] in the list, and labels [N].
        Returns [N, vocabulary] for every answer, and for what follows it."""
        n, parts, places = len(labels[0]), [self.target.emb(torch.zeros(len(labels[0]), 1, dtype=torch.long))], []
        pixels, labels = list(pixels), list(labels)
        for piece in prompt.replace(PICTURE, f"\2{PICTURE}\2").replace(ANSWER, f"\2{ANSWER}\2").split("\2"):
            if piece == PICTURE:
                parts.append(self.projector(pixels.pop(0)))
            elif piece == ANSWER:
                places.append(sum(part.shape[1] for part in parts))
                parts.append(self.target.emb(self.answers[labels.pop(0)])[:, None])
            elif piece:
                parts.append(self.target.emb(torch.tensor(self.tokens(piece))).expand(n, -1, -1))
        x = torch.cat(parts, 1)
        for block in self.target.blocks:
            x = block(x, self.target.cos, self.target.sin)
        x = self.target.norm(x[:, [place + more for place in places for more in (-1, 0)]])
        rows = F.linear(x, self.target.emb.weight)
        return [(rows[:, 2 * i], rows[:, 2 * i + 1]) for i in range(len(places))]


# ---- Training


def main(out, *options):
    if options not in ((), ("--force",)):
        sys.exit(__doc__)
    try:
        with OutputFile(out, bool(options), "use --force to replace it") as output:
            training = Training()
            training.classify()
            training.read()
            for prompt in PROMPTS:
                print(f"{training.accuracy([prompt]):.3f} {prompt!r}")
            write(training.projector, output.partial)
    except Error as error:
        sys.exit(str(error))


class Training:
    def __init__(self, seed=0):
        torch.manual_seed(seed)
        torch.set_num_threads(1)  # else sums depend on the machine
        self.generator = torch.Generator().manual_seed(seed)
        (self.pictures, self.labels), self.held_out = data()
        self.projector = Projector(CONFIGS["target"].dim)
        self.reader = Reader(load_target(), self.projector)

    def batch(self, count):
        chosen = torch.randint(len(self.pictures), (count,), generator=self.generator)
        return varied(self.pictures[chosen], self.generator), self.labels[chosen]

    def choice(self, texts):
        return texts[int(torch.randint(len(texts), (), generator=self.generator))]

    def steps(self, count, rate, *more):
        parameters = [p for module in (self.projector, *more) for p in module.parameters()]
        optimizer = torch.optim.AdamW(parameters, lr=rate, weight_decay=0.01)
        schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, rate, count, pct_start=0.1)
        for step in range(1, count + 1):
            optimizer.zero_grad()
            yield step
            nn.utils.clip_grad_norm_(parameters, 1.0)
            optimizer.step()
            schedule.step()

    def classify(self, count=1500):
        """The mean of the encoder's rows tells digits apart."""
        head = nn.Linear(WIDTH, 10)
        for step in self.steps(count, 2e-3, head):
            pixels, digits = self.batch(128)
            loss = F.cross_entropy(head(self.projector.encode(pixels).mean(1)), digits)
            loss.backward()
            if step % 100 == 0:
                with torch.no_grad():
                    guesses = head(self.projector.encode(plain(self.held_out[0])).mean(1)).argmax(-1)
                right = (guesses == self.held_out[1]).float().mean()
                print(f"encoder, step {step}: loss {loss:.3f}, right {right:.3f}", flush=True)

    def read(self, count=400):
        """The rows become what makes the target answer."""
        for step in self.steps(count, 1e-3):
            prompts = [self.choice(PROMPTS) for _ in range(2 if step % 3 == 0 else 1)]  # every third has two pictures
            pixels, digits = zip(*(self.batch(32) for _ in prompts), strict=True)
            loss = torch.zeros(())
            answers = self.reader.logits(self.choice(JOINS).join(prompts), pixels, digits)
            for (answer, after), wanted in zip(answers, digits, strict=True):
                loss = loss + F.cross_entropy(answer, self.reader.answers[wanted]) / len(prompts)
                if len(prompts) == 1:
                    loss = loss + 0.4 * F.cross_entropy(after, torch.full_like(wanted, END_OF_TEXT))
            loss.backward()
            if step % 25 == 0:
                print(f"target, step {step}: loss {loss:.3f}, right {self.accuracy(PROMPTS[:1]):.3f}", flush=True)

    @torch.no_grad()
    def accuracy(self, prompts):
        pictures, labels = self.held_out
        wanted = self.reader.answers[labels]
        right = [
            self.reader.logits(prompt, [plain(pictures)], [labels])[0][0].argmax(-1) == wanted for prompt in prompts
        ]
        return torch.stack(right).float().mean().item()


if __name__ == "__main__":
    main(*sys.argv[1:])
