#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Answers a question with the likeliest tokens: generate.py MODEL.so TOKENIZER.json TEXT [COUNT].

MODEL.so is what `backplane compile` made of a file that write_onnx.py wrote. Keys and values of earlier
tokens stay on the device: each step is given the tensors that the last one returned.
"""

import sys

import backplane
import numpy as np
import tokenizers

CHAT = ("<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n"
        "<|im_start|>user\n{}<|im_end|>\n<|im_start|>assistant\n")
END = 2


def generate(path, tokens, count):
    """Yields tokens that continue `tokens`. BACKPLANE_DEVICE names the devices to choose from."""
    module = backplane.load(path)
    model = backplane.Model(module)
    device = model.device
    step = module.machine(device)["main"]
    past = []
    for info in model.inputs[1:]:
        past.append(backplane.empty([max(extent, 0) for extent in info.shape], info.dtype, device))
    for _ in range(count):
        logits, *past = step(backplane.tensor(np.array([tokens], np.int64), device), *past)
        tokens = [int(logits.numpy().argmax())]
        yield tokens[0]


def main():
    path, tokenizer, text, *count = sys.argv[1:]
    tokenizer = tokenizers.Tokenizer.from_file(tokenizer)
    tokens = []
    for token in generate(path, tokenizer.encode(CHAT.format(text)).ids, int(*count or [256])):
        if token == END:
            break
        tokens.append(token)
    print(tokenizer.decode(tokens))


if __name__ == "__main__":
    main()
