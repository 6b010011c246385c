#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compare a language model with onnxruntime: bench_language_model.py [--rounds N] [--past N] NAME=FILE...

FILE is an ONNX file of examples/language-model/write_onnx.py, which onnxruntime runs, or a library that `backplane
compile` made from an ONNX file; the others are compared with the first. Each file runs in a process of its own
through all rounds; the processes take turns. A step computes one token after --past earlier tokens (default 256); a
prompt has 256 tokens. Keys and values are not copied to the host between steps; Backplane keeps the keys and values
in place. Prints least times, their ratios, and the largest resident memory.
"""

import argparse
import os
import resource
import subprocess
import sys
import time

import numpy as np

PROMPT, REPEATS = 256, {"prompt": 3, "step": 12}


def peer_step(path, threads):
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(path, options)
    inputs, outputs = session.get_inputs()[1:], [value.name for value in session.get_outputs()]

    def step(tokens, past):
        binding = session.io_binding()
        binding.bind_cpu_input("input_ids", tokens)
        for info, value in zip(inputs, past):
            binding.bind_ortvalue_input(info.name, value)
        for name in outputs:
            binding.bind_output(name)
        session.run_with_iobinding(binding)
        logits, *present = binding.get_outputs()
        return logits.numpy(), present

    shapes = [[n if isinstance(n, int) else 0 for n in info.shape] for info in inputs]
    return step, [onnxruntime.OrtValue.ortvalue_from_numpy(np.zeros(shape, np.float32)) for shape in shapes]


def our_step(path, room):
    import backplane

    model = backplane.Model(backplane.load(path), backplane.device("cpu"))
    caches = [info.name for info in model.inputs[1:]]
    for info, present in zip(model.inputs[1:], model.outputs[1:]):
        shape = [room if n < 0 else n for n in info.shape]
        model.bind_cache(info.name, present.name, backplane.empty(shape, info.dtype, model.device))

    def step(tokens, past):
        for name in caches:
            model.set_cache_length(name, past)
        logits = model.run(input_ids=tokens)["logits"].numpy()
        return logits, past + tokens.shape[1]

    return step, 0


def serve(path, threads, length):
    """Answer "prompt" and "step" with seconds, and "memory" with MiB."""
    step, empty = (peer_step(path, threads) if path.endswith(".onnx")
                   else our_step(path, max(length, PROMPT) + 1))
    prompt, one = np.random.default_rng(1).integers(3, 300, (1, PROMPT)), np.array([[5]])
    past, left = empty, length
    while left > 0:
        past, left = step(prompt[:, :left], past)[1], left - PROMPT
    print("ready", flush=True)
    for line in sys.stdin:
        wanted, best = line.strip(), float("inf")
        for _ in range(REPEATS.get(wanted, 0)):
            start = time.perf_counter()
            step(*((prompt, empty) if wanted == "prompt" else (one, past)))
            best = min(best, time.perf_counter() - start)
        answer = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024 if wanted == "memory" else best
        print(answer, flush=True)


def start(path, threads, length):
    environment = {**os.environ, "BACKPLANE_NUM_THREADS": str(threads)}
    process = subprocess.Popen([sys.executable, __file__, "--serve", str(threads), "--past", str(length), path], text=True, env=environment,
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    process.stdout.readline()
    return process


def ask(process, wanted):
    print(wanted, file=process.stdin, flush=True)
    return float(process.stdout.readline())


def compare(named, threads, options):
    processes = {name: start(path, threads, options.past) for name, path in named}
    best = {}
    for _ in range(options.rounds):
        for wanted in REPEATS:
            for name, process in processes.items():
                best[name, wanted] = min(best.get((name, wanted), float("inf")), ask(process, wanted))
    first = named[0][0]
    for name, process in processes.items():
        cells = [f"{1000 * best[name, wanted]:.1f} ms | {best[name, wanted] / best[first, wanted]:.2f}"
                 for wanted in REPEATS]
        print(f"| {name} | {threads} | {' | '.join(cells)} | {ask(process, 'memory'):.0f} |", flush=True)
        process.stdin.close()
        process.wait()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--past", type=int, default=256, metavar="N", help="tokens before a step")
    parser.add_argument("--serve", type=int, metavar="THREADS", help=argparse.SUPPRESS)
    parser.add_argument("files", nargs="+", metavar="NAME=FILE")
    options = parser.parse_args()
    if options.serve:
        serve(options.files[0], options.serve, options.past)
        return
    print("| runner | threads | prompt | ratio | step | ratio | MiB |\n|---|---|---|---|---|---|---|")
    for threads in 1, 2:
        compare([text.split("=", 1) for text in options.files], threads, options)


if __name__ == "__main__":
    main()
