"""Whisper in float32 NumPy, plainly. Source: openai/whisper model.py; tensors under CTranslate2's names."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
Tensor = Callable[[str], Floats]

_erf = np.vectorize(math.erf, otypes=[np.float32])


def gelu(x: Floats) -> Floats:
    """x Phi(x), with the exact error function."""
    try:
        from scipy.special import erf
    except ImportError:
        erf = _erf
    return (0.5 * x * (1 + erf(x / np.sqrt(np.float32(2))))).astype(np.float32)


def softmax(x: Floats) -> Floats:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def layer_norm(x: Floats, gain: Floats, shift: Floats) -> Floats:
    mean = x.mean(-1, keepdims=True)
    return (x - mean) / np.sqrt(((x - mean) ** 2).mean(-1, keepdims=True) + 1e-5) * gain + shift


def convolve(x: Floats, weight: Floats, bias: Floats, stride: int) -> Floats:
    """x (channels, frames), one silent frame on either side; weight (outputs, channels, 3)."""
    padded = np.pad(x, ((0, 0), (1, 1)))
    frames = (padded.shape[1] - 3) // stride + 1
    columns = np.stack(
        [padded[:, tap : tap + stride * frames : stride][:, :frames] for tap in range(3)], axis=1
    )
    return (
        weight.transpose(0, 2, 1).reshape(len(weight), -1) @ columns.transpose(1, 0, 2).reshape(-1, frames)
        + bias[:, None]
    )


def attend(q: Floats, k: Floats, v: Floats, *, causal: bool = False) -> tuple[Floats, Floats]:
    """Heads of 64 side by side: q (n, width), k and v (m, width). The contexts, and the scores (heads, n, m)."""
    heads = q.shape[1] // 64
    split = [x.reshape(len(x), heads, 64).transpose(1, 0, 2) for x in (q, k, v)]
    scores = split[0] @ split[1].transpose(0, 2, 1) / 8
    if causal:
        scores = scores + np.triu(np.full(scores.shape[1:], -np.inf, np.float32), 1)
    return (softmax(scores) @ split[2]).transpose(1, 0, 2).reshape(q.shape), scores


class Reference:
    """One network; `encode` and `decode` follow openai/whisper's AudioEncoder and TextDecoder."""

    def __init__(self, tensor: Tensor, encoder_layers: int, decoder_layers: int) -> None:
        self._tensor = tensor
        self._encoder_layers, self._decoder_layers = encoder_layers, decoder_layers

    def _norm(self, name: str, x: Floats) -> Floats:
        return layer_norm(x, self._tensor(f"{name}/gamma"), self._tensor(f"{name}/beta"))

    def _dense(self, name: str, x: Floats) -> Floats:
        return x @ self._tensor(f"{name}/weight").T + self._tensor(f"{name}/bias")

    def _feed_forward(self, name: str, x: Floats) -> Floats:
        inner = gelu(self._dense(f"{name}/linear_0", self._norm(f"{name}/layer_norm", x)))
        return x + self._dense(f"{name}/linear_1", inner)

    def _self_attention(self, name: str, x: Floats, *, causal: bool) -> Floats:
        q, k, v = np.split(self._dense(f"{name}/linear_0", self._norm(f"{name}/layer_norm", x)), 3, axis=1)
        return x + self._dense(f"{name}/linear_1", attend(q, k, v, causal=causal)[0])

    def encode(self, mel: Floats) -> Floats:
        """(mels, 3000) to (1500, width)."""
        x = gelu(convolve(mel, self._tensor("encoder/conv1/weight"), self._tensor("encoder/conv1/bias"), 1))
        x = gelu(convolve(x, self._tensor("encoder/conv2/weight"), self._tensor("encoder/conv2/bias"), 2))
        x = x.T + self._tensor("encoder/position_encodings/encodings")
        for layer in range(self._encoder_layers):
            x = self._self_attention(f"encoder/layer_{layer}/self_attention", x, causal=False)
            x = self._feed_forward(f"encoder/layer_{layer}/ffn", x)
        return self._norm("encoder/layer_norm", x)

    def decode(self, tokens: Sequence[int], audio: Floats) -> tuple[Floats, Floats]:
        """Logits (tokens, vocabulary), and cross-attention scores (layers, heads, tokens, frames)."""
        embeddings = self._tensor("decoder/embeddings/weight")
        x = embeddings[list(tokens)] + self._tensor("decoder/position_encodings/encodings")[: len(tokens)]
        scores = []
        for layer in range(self._decoder_layers):
            name = f"decoder/layer_{layer}"
            x = self._self_attention(f"{name}/self_attention", x, causal=True)
            q = self._dense(f"{name}/attention/linear_0", self._norm(f"{name}/attention/layer_norm", x))
            k, v = np.split(self._dense(f"{name}/attention/linear_1", audio), 2, axis=1)
            context, of_layer = attend(q, k, v)
            scores.append(of_layer)
            x = x + self._dense(f"{name}/attention/linear_2", context)
            x = self._feed_forward(f"{name}/ffn", x)
        return self._norm("decoder/layer_norm", x) @ embeddings.T, np.stack(scores)
