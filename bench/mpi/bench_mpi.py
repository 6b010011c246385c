#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measure the efficiency of backplane-mpi: compare a job of n ranks with n independent jobs of one rank; each
independent job has its share of the items.

    bench_mpi.py [--ranks 1,2] [--items 200] [--rounds 5] [--threads 1] MODEL FILE

Each item is a copy of FILE. A time includes reading, dealing, computing and writing all items, but not the start
of the job. The jobs run in turns. Prints the shortest times of both, and their quotient,
independent / job; 1 is ideal. """
import argparse
import json
import os
import pathlib
import shutil
import subprocess
import tempfile


def start(options, ranks, items, output):
    output.mkdir(exist_ok=True)
    command = [*options.launcher.split(), "-n", str(ranks), options.program, "run", options.model, "--device", options.device,
               "--threads", str(options.threads), "--output", str(output), "--json", *map(str, items)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True)


def seconds(job):
    text, _ = job.communicate()
    if job.returncode != 0:
        raise SystemExit(f"bench_mpi: a job failed with status {job.returncode}")
    return json.loads(text)["seconds"]


def measure(options, ranks, items, folder):
    """Return the shortest time of the job, and that of the slowest of the independent jobs, over the rounds."""
    together, alone = [], []
    for _ in range(options.rounds):
        together.append(seconds(start(options, ranks, items, folder / "job")))
        jobs = [start(options, 1, items[i::ranks], folder / f"alone-{i}") for i in range(ranks)]
        alone.append(max(seconds(job) for job in jobs))
    return min(together), min(alone)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("file")
    parser.add_argument("--ranks", default="1,2")
    parser.add_argument("--items", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--program", default="backplane-mpi")
    parser.add_argument("--launcher", default="mpirun", help="and its options")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        items = [folder / f"item-{i}{pathlib.Path(options.file).suffix}" for i in range(options.items)]
        for item in items:
            shutil.copy(options.file, item)
        print(f"{options.items} items on {os.cpu_count()} cores, {options.threads} threads a rank")
        for ranks in map(int, options.ranks.split(",")):
            job, alone = measure(options, ranks, items, folder)
            print(f"{ranks} ranks: job {job:.3f} s, independent {alone:.3f} s, efficiency {alone / job:.3f}")


if __name__ == "__main__":
    main()
