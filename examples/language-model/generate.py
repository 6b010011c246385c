#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Answers a question with the likeliest tokens: generate.py MODEL.so TOKENIZER.json TEXT [COUNT].

`backplane compile` makes MODEL.so from a file that write_onnx.py wrote. Keys and values of earlier
tokens stay in place on the device: a step writes the keys and values of its tokens behind them.
"""

import sys

import backplane
import numpy as np
import tokenizers

CHAT = ("<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n"
        "<|im_start|>user\n{}<|im_end|>\n<|im_start|>assistant\n")
END = 2


def generate(path, tokens, count):
    """Yield tokens that continue `tokens`. BACKPLANE_DEVICE lists the preferred devices."""
    model = backplane.Model(backplane.load(path))
    room = len(tokens) + count
    for past, present in zip(model.inputs[1:], model.outputs[1:]):
        shape = [room if extent < 0 else extent for extent in past.shape]
        model.bind_cache(past.name, present.name, backplane.empty(shape, past.dtype, model.device))
    for _ in range(count):
        logits = model.run(input_ids=np.array([tokens], np.int64))["logits"]
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
