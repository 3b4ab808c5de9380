"""Writes a pair in the Hugging Face layout, in bf16, in files of less than 50 MB."""
import json
import os
import struct

import torch

import files
from model import Draft, Target

LARGEST = 48_000_000  # bytes of one file


def save_safetensors(path, tensors):
    """tensors: {name: tensor}, written as BF16."""
    header, offset, data = {"__metadata__": {"format": "pt"}}, 0, []
    for name, tensor in tensors.items():
        low = tensor.detach().bfloat16().contiguous().view(torch.int16).numpy().astype("<i2").tobytes()
        header[name] = {"dtype": "BF16", "shape": list(tensor.shape), "data_offsets": [offset, offset + len(low)]}
        offset += len(low)
        data.append(low)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with files.replacing(path) as new, open(new, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text)
        f.writelines(data)


def load_safetensors(path):
    """{name: f32 tensor} of a file that save_safetensors wrote."""
    with open(path, "rb") as f:
        header = json.loads(f.read(struct.unpack("<Q", f.read(8))[0]))
        data = bytearray(f.read())
    out = {}
    for name, entry in header.items():
        if name != "__metadata__":
            first, last = entry["data_offsets"]
            flat = torch.frombuffer(data, dtype=torch.bfloat16, offset=first, count=(last - first) // 2)
            out[name] = flat.view(entry["shape"]).float()
    return out


def sharded(tensors, largest=LARGEST):
    """Groups of names that fit into one file each, in order."""
    groups, size = [[]], 0
    for name, tensor in tensors.items():
        bytes_here = 2 * tensor.numel()
        if groups[-1] and size + bytes_here > largest:
            groups.append([])
            size = 0
        groups[-1].append(name)
        size += bytes_here
    return groups


def save_model(folder, config, tensors, largest=LARGEST):
    os.makedirs(folder, exist_ok=True)
    files.write_json(f"{folder}/config.json", config, indent=2)
    groups = sharded(tensors, largest)
    if len(groups) == 1:
        save_safetensors(f"{folder}/model.safetensors", tensors)
        return
    places = {}
    for i, names in enumerate(groups, 1):
        file = f"model-{i:05d}-of-{len(groups):05d}.safetensors"
        save_safetensors(f"{folder}/{file}", {name: tensors[name] for name in names})
        places.update(dict.fromkeys(names, file))
    total = sum(2 * tensor.numel() for tensor in tensors.values())
    index = {"metadata": {"total_size": total}, "weight_map": places}
    files.write_json(f"{folder}/model.safetensors.index.json", index, indent=2)


def load_model(folder):
    """config, {name: f32 tensor} of what save_model wrote."""
    config = files.read_json(f"{folder}/config.json")
    index = f"{folder}/model.safetensors.index.json"
    if not os.path.exists(index):
        return config, load_safetensors(f"{folder}/model.safetensors")
    tensors = {}
    for file in sorted(set(files.read_json(index)["weight_map"].values())):
        tensors.update(load_safetensors(f"{folder}/{file}"))
    return config, tensors


def target_names(state):
    """Names as the checkpoints have them: all of a target stands under "model."."""
    return {"model." + name: value for name, value in state.items()}


def save_pair(folder, tokenizer, target, draft):
    """target, draft: models of model.py."""
    save_model(f"{folder}/target", target.config, target_names(target.state_dict()))
    save_model(f"{folder}/draft", draft.config, draft.state_dict())
    tokenizer.save(f"{folder}/target/tokenizer.json")
    special = {key: target.config[key] for key in ("bos_token_id", "eos_token_id", "pad_token_id")}
    files.write_json(f"{folder}/target/generation_config.json", {**special, "do_sample": False}, indent=2)


def load_pair(folder):
    """target and draft of model.py, with the weights as stored, in f32."""
    config, tensors = load_model(f"{folder}/target")
    target = Target(config)
    target.load_state_dict({name[len("model."):]: value for name, value in tensors.items()})
    config, tensors = load_model(f"{folder}/draft")
    draft = Draft(config)
    draft.load_state_dict(tensors)
    return target.eval().requires_grad_(False), draft.eval().requires_grad_(False)
