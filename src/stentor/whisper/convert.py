"""From CTranslate2's form of a Whisper model to Hugging Face's, which vLLM reads.

What the one has and the other lacks is told by the tensors' shapes and by the tokenizer. Source of the names:
CTranslate2 python/ctranslate2/converters/transformers.py, WhisperLoader, which goes the other way.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np

from stentor.errors import ModelError
from stentor.whisper.stored import Float16, Tensor, as_float16, read_ctranslate2, write_safetensors
from stentor.whisper.tokenizer import FIRST_MERGE, TIMESTAMP_STEP_S
from stentor.whisper.vocabulary import MULTILINGUAL_VOCABULARY

Json: TypeAlias = dict[str, Any]

HEAD_WIDTH: Final = 64
"""Of attention, in every Whisper model. Source: openai/whisper model-card.md, width and heads."""

TIMESTAMPS: Final = 1501
"""Tokens. Source: openai/whisper tokenizer.py."""

MAX_INITIAL_STEPS: Final = 50
"""The first timestamp is at most 1 s. Source: openai/whisper decoding.py, max_initial_timestamp."""

_NORM: Final = {"gamma": "weight", "beta": "bias"}
_PLAIN: Final = {
    "conv1": "conv1",
    "conv2": "conv2",
    "layer_norm": "layer_norm",
    "embeddings/weight": "embed_tokens.weight",
    "position_encodings/encodings": "embed_positions.weight",
}
_LAYER: Final[Mapping[str, tuple[str, ...]]] = {
    "self_attention/layer_norm": ("self_attn_layer_norm",),
    "self_attention/linear_0": ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"),
    "self_attention/linear_1": ("self_attn.out_proj",),
    "attention/layer_norm": ("encoder_attn_layer_norm",),
    "attention/linear_0": ("encoder_attn.q_proj",),
    "attention/linear_1": ("encoder_attn.k_proj", "encoder_attn.v_proj"),
    "attention/linear_2": ("encoder_attn.out_proj",),
    "ffn/layer_norm": ("final_layer_norm",),
    "ffn/linear_0": ("fc1",),
    "ffn/linear_1": ("fc2",),
}

_FEATURES: Final = {
    "feature_extractor_type": "WhisperFeatureExtractor",
    "processor_class": "WhisperProcessor",
    "sampling_rate": 16000,
    "hop_length": 160,
    "n_fft": 400,
    "chunk_length": 30,
    "n_samples": 480000,
    "nb_max_frames": 3000,
    "padding_side": "right",
    "padding_value": 0.0,
    "return_attention_mask": False,
}
"""preprocessor_config.json but for the number of mels. Source: openai/whisper-base on the hub."""


def convert(source: Path, target: Path) -> None:
    """Write a model in Hugging Face's form, its weights as float16.

    Args:
        source: A directory with `model.bin`, `config.json` and `tokenizer.json`.
        target: A directory; it is made if need be.

    Raises:
        ModelError: The source is damaged or not Whisper, or the target cannot be written.
    """
    tensors = read_ctranslate2(source / "model.bin")
    try:
        told: Json = json.loads((source / "config.json").read_text(encoding="utf-8"))
        tokenizer: Json = json.loads((source / "tokenizer.json").read_text(encoding="utf-8"))
        added = _with_timestamps(tokenizer)
        _mend_merges(tokenizer)
        files = _configurations(tensors, told, added) | {"tokenizer.json": tokenizer}
        weights = dict(_renamed(tensors))
    except (KeyError, ValueError) as error:
        raise ModelError(f"{source} is damaged, or not a Whisper model: {error!r}") from error
    try:
        target.mkdir(parents=True, exist_ok=True)
        for name, content in files.items():
            (target / name).write_text(json.dumps(content, ensure_ascii=False, indent=2) + "\n", "utf-8")
        write_safetensors(target / "model.safetensors", weights)
    except OSError as error:
        raise ModelError(f"cannot write {target}: {error.strerror}") from error


def _renamed(tensors: Mapping[str, Tensor]) -> Iterator[tuple[str, Float16]]:
    """The weights under Hugging Face's names; q, k and v taken apart, and k's bias, always zero, left out."""
    for name, stored in tensors.items():
        if stored.ndim == 0 or name.endswith("_scale") or name == "decoder/projection/weight":
            continue
        side, _, rest = name.partition("/")
        values = as_float16(tensors, name)
        if rest in _PLAIN:
            yield f"model.{side}.{_PLAIN[rest]}", values
            continue
        stem, _, kind = rest.rpartition("/")
        kind = _NORM.get(kind, kind)
        if stem in _PLAIN:
            yield f"model.{side}.{_PLAIN[stem]}.{kind}", values
            continue
        layer, _, place = stem.partition("/")
        parts = _LAYER[place]
        for part, piece in zip(parts, np.split(values, len(parts)), strict=True):
            if part.endswith("k_proj") and kind == "bias":
                if piece.any():
                    raise ModelError(f"{name}: Whisper's keys have no bias, and this one is not zero")
                continue
            prefix = f"model.{side}.layers.{layer.removeprefix('layer_')}"
            yield f"{prefix}.{part}.{kind}", np.ascontiguousarray(piece)


def _with_timestamps(tokenizer: Json) -> dict[str, int]:
    """Add the timestamps, which old tokenizers lack, in place; returns all added tokens' numbers."""
    added = {token["content"]: token["id"] for token in tokenizer["added_tokens"]}
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": False}
    for number, step in enumerate(range(TIMESTAMPS), added["<|notimestamps|>"] + 1):
        content = f"<|{step * TIMESTAMP_STEP_S:.2f}|>"
        if content not in added:
            added[content] = number
            tokenizer["added_tokens"].append({"id": number, "content": content, **flags})
    return added


def _mend_merges(tokenizer: Json) -> None:
    """Put back the first merge, in place, where it was lost; see `FIRST_MERGE`."""
    bpe = tokenizer["model"]
    merge = " ".join(FIRST_MERGE) if isinstance(bpe["merges"][0], str) else list(FIRST_MERGE)
    if "".join(FIRST_MERGE) in bpe["vocab"] and merge not in bpe["merges"]:
        bpe["merges"].insert(0, merge)


def _configurations(tensors: Mapping[str, Tensor], told: Json, added: Mapping[str, int]) -> dict[str, Json]:
    """The contents of the other files."""
    end, start = added["<|endoftext|>"], added["<|startoftranscript|>"]
    numbers = {"bos_token_id": end, "eos_token_id": end, "pad_token_id": end, "decoder_start_token_id": start}
    network = _network(tensors) | numbers
    return {
        "config.json": network,
        "generation_config.json": _generation(network, told, added) | numbers,
        "preprocessor_config.json": {**_FEATURES, "feature_size": network["num_mel_bins"]},
        "tokenizer_config.json": {
            "tokenizer_class": "WhisperTokenizer",
            "processor_class": "WhisperProcessor",
            **dict.fromkeys(("bos_token", "eos_token", "unk_token", "pad_token"), "<|endoftext|>"),
            # Without these, transformers counts timestamps from the wrong token.
            "additional_special_tokens": [t for t, n in added.items() if n <= added["<|notimestamps|>"]],
            "add_prefix_space": False,
            "clean_up_tokenization_spaces": False,
            "model_max_length": 1024,
            "errors": "replace",
            "return_attention_mask": False,
        },
    }


def _network(tensors: Mapping[str, Tensor]) -> Json:
    """The network, as config.json tells it."""
    vocabulary, width = tensors["decoder/embeddings/weight"].shape
    network: Json = {
        "architectures": ["WhisperForConditionalGeneration"],
        "model_type": "whisper",
        "dtype": "float16",
        "vocab_size": vocabulary,
        "num_mel_bins": tensors["encoder/conv1/weight"].shape[1],
        "d_model": width,
        "max_source_positions": tensors["encoder/position_encodings/encodings"].shape[0],
        "max_target_positions": tensors["decoder/position_encodings/encodings"].shape[0],
        "activation_function": "gelu",
        "scale_embedding": False,
        "is_encoder_decoder": True,
        "tie_word_embeddings": True,
        "use_cache": True,
    }
    for side in ("encoder", "decoder"):
        names = [name for name in tensors if name.startswith(f"{side}/layer_")]
        network[f"{side}_layers"] = sum(name.endswith("/ffn/linear_0/bias") for name in names)
        network[f"{side}_attention_heads"] = width // HEAD_WIDTH
        network[f"{side}_ffn_dim"] = tensors[f"{side}/layer_0/ffn/linear_0/bias"].shape[0]
    return network | {"num_hidden_layers": network["encoder_layers"]}


def _generation(network: Json, told: Json, added: Mapping[str, int]) -> Json:
    """How text is generated: generation_config.json."""
    multilingual = network["vocab_size"] >= MULTILINGUAL_VOCABULARY
    generation: Json = {
        "alignment_heads": told["alignment_heads"],
        "suppress_tokens": told["suppress_ids"],
        "begin_suppress_tokens": told["suppress_ids_begin"],
        "no_timestamps_token_id": added["<|notimestamps|>"],
        "prev_sot_token_id": added["<|startofprev|>"],
        "max_initial_timestamp_index": MAX_INITIAL_STEPS,
        "max_length": network["max_target_positions"],
        "return_timestamps": False,
        "is_multilingual": multilingual,
    }
    if multilingual:
        tasks = {task: added[f"<|{task}|>"] for task in ("transcribe", "translate")}
        languages = range(added["<|startoftranscript|>"] + 1, min(tasks.values()))
        generation["task_to_id"] = tasks
        generation["lang_to_id"] = {token: number for token, number in added.items() if number in languages}
    return generation
