"""The transformer for text, against a forward pass in NumPy, and what it refuses."""

import math

import numpy as np
import torch

from neuro_cli.model.char_gpt import CharGPT

erf = np.vectorize(math.erf)


def normed(x, norm):
    mean, variance = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
    return (x - mean) / np.sqrt(variance + 1e-5) * norm["weight"] + norm["bias"]


def softmax(x):
    x = np.exp(x - x.max())
    return x / x.sum()


def part(weights, name):
    return {key.removeprefix(f"{name}."): value for key, value in weights.items() if key.startswith(f"{name}.")}


def reference(weights, tokens, depth, heads):
    """Logits (T, V) of one text, position by position."""
    x = weights["tokens.weight"][tokens] + weights["positions.weight"][: len(tokens)]
    width = x.shape[1]
    for number in range(depth):
        block = part(weights, f"blocks.{number}")
        projected = normed(x, part(block, "before_attention")) @ block["queries_keys_values.weight"].T
        query, key, value = (projected[:, place * width : (place + 1) * width] for place in range(3))
        seen = np.zeros_like(x)
        for head in range(heads):
            own = slice(head * width // heads, (head + 1) * width // heads)
            for place in range(len(tokens)):
                shares = softmax(key[: place + 1, own] @ query[place, own] / math.sqrt(width // heads))
                seen[place, own] = shares @ value[: place + 1, own]
        x = x + seen @ block["attended.weight"].T
        hidden = normed(x, part(block, "before_layers")) @ block["widened.weight"].T
        x = x + (hidden * (1 + erf(hidden / math.sqrt(2))) / 2) @ block["narrowed.weight"].T
    return normed(x, part(weights, "last_norm")) @ weights["tokens.weight"].T


def test_it_gives_what_a_loop_over_positions_gives():
    torch.manual_seed(0)
    module = CharGPT(outputs=11, context=7, width=12, depth=2, heads=3).double()
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.normal_(std=0.5)
    tokens = torch.randint(11, (3, 6))
    weights = {name: value.numpy() for name, value in module.state_dict().items()}
    expected = np.stack([reference(weights, row, 2, 3) for row in tokens.numpy()])
    np.testing.assert_allclose(module(tokens).detach().numpy(), expected, rtol=1e-9, atol=1e-9)


def test_the_embedding_is_the_head_and_the_size_follows_a_formula():
    module = CharGPT(outputs=103, context=64, width=64, depth=2, heads=4)
    count = sum(parameter.numel() for parameter in module.parameters())
    assert count == (103 + 64) * 64 + 2 * (12 * 64**2 + 4 * 64) + 2 * 64 == 109_632
    assert module.input_shape == (64,)
