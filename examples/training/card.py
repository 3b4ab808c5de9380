"""The model card of a pair, from its configs, its training logs and what was measured."""
import json
import os

import export
import files
import settings
from problems import KINDS

CARD = """# {name}

A target and its DFlash draft that solve worked problems and write records, programs with traces and tables. Hugging Face
layout, weights in BF16. Made from nothing by `./run train`; how is told in `examples/training/README.md` and
`docs/training.md`.

| | target | draft |
|---|---|---|
| shape | Qwen3, {layers} layers, hidden {hidden} | DFlash v1, {draft_layers} layers, hidden {hidden} |
| heads | {heads} query, {kv} key/value, width 64 | the same |
| vocabulary | {vocab}, head tied to the embedding | the target's |
| parameters | {parameters:,} ({megabytes:.1f} MB) | {draft_parameters:,} ({draft_megabytes:.1f} MB) |
| drafting | | block {block}, taps after layers {taps}, mask token {mask} |

**What it writes.** {kinds} kinds of text: {kind_names}.
The wording of a question decides the layout of the answer. A prompt is the question and a newline; answers that are a number
or a word close with `Answer: ...`, then comes the end token:

    Leo has 347 stamps, buys 86 more and gives 129 to Nora. How many stamps does Leo have now?\\n

**Tokenizer.** `target/tokenizer.json`, a byte-level BPE of its own: any text can be encoded, but the model knows the words of
its problems only. Special tokens: `<|end|>` {end}, `<|mask|>` {mask}, `<|pad|>` {pad}.

**Training.** From scratch on two CPU cores, on text produced by a seeded program. Seed {seed}, AdamW.
{training}

## Measured on held-out problems

{problems} problems with sets of numbers that training never saw, a third of them in wordings that training never saw. What is
held out is the set as it stands, so of the 300 problems of the whole set 70 have a near twin that training may have drawn: all
18 programs (the same task under another variable's name), all 18 unit tables (every row stands in another table), 18 additions
and 16 long multiplications (the numbers swapped). Three questions come twice. `right` is judged by the answer, or by the whole
text where there is none. Tokens a round (the mean acceptance length) count the bonus token; the ceiling is what a draft that is
always right would reach, since a text ends inside its last block. The last column of the slots is the acceptance rate per
position. Float32 inputs, the exact kernels.

{measured}

**What it does not show.** The text comes from a program, so it is easier to guess than what people write; `../prose-and-code`
stands at the other end. The target knows nothing but these problems, and is not always right.

**Origin.** The training text was generated and has no author. The weights carry the project's licence, MIT (`LICENSE`).
"""


def weight_bytes(folder):
    """Bytes of the weights' files."""
    return sum(os.path.getsize(f"{folder}/{file}") for file in os.listdir(folder) if file.endswith(".safetensors"))


def training_text(folder):
    """What the logs say about length: the last step, and the tokens of a process; and the highest rates of the plans."""
    out = []
    for name, what, plan in (("small", "the small target", settings.SMALL_PLAN), ("large", "the grown one", settings.LARGE_PLAN),
                             ("draft", "the draft", settings.DRAFT_PLAN)):
        path = f"{folder}/{name}.pt.log"
        if os.path.exists(path):
            with open(path) as f:
                last = json.loads(f.readlines()[-1])
            size = f" of about {last['tokens']:.0f} tokens" if "tokens" in last else ""
            out.append(f"{what} {last['step']} steps of {plan.workers} processes{size} each, learning rate {plan.rate:g}")
    return ("; ".join(out) + ".").capitalize() if out else ""


def count_of(tensors):
    return sum(p.numel() for p in tensors.values())


def write(folder, pair, name, problems, sections):
    """Writes README.md into `pair`. folder: has the logs; problems: how many; sections: Markdown of what was measured."""
    target, target_weights = export.load_model(f"{pair}/target")
    draft, draft_weights = export.load_model(f"{pair}/draft")
    kinds = list(KINDS)
    numbers = dict(parameters=count_of(target_weights), draft_parameters=count_of(draft_weights))
    text = CARD.format(
        name=name, layers=target["num_hidden_layers"], hidden=target["hidden_size"], draft_layers=draft["num_hidden_layers"],
        heads=target["num_attention_heads"], kv=target["num_key_value_heads"], vocab=target["vocab_size"], **numbers,
        megabytes=weight_bytes(f"{pair}/target") / 1e6, draft_megabytes=weight_bytes(f"{pair}/draft") / 1e6,
        block=draft["block_size"], taps=", ".join(map(str, draft["dflash_config"]["target_layer_ids"])),
        mask=draft["dflash_config"]["mask_token_id"], end=target["eos_token_id"], pad=target["pad_token_id"],
        kinds=len(kinds), kind_names=", ".join(kinds), training=training_text(folder), seed=settings.SEED,
        problems=problems, measured="\n\n".join(sections))
    files.write_text(f"{pair}/README.md", text)
