# SPDX-License-Identifier: Apache-2.0
"""Let system calls of commands that write files fail once, by strace, or kill the command at the call. A file of the
user is whole: the old one or the new one. A command that succeeds has written all of its files, the same as without
faults; one that fails says why, and leaves no other file. Prints TAP. Arguments: build folder, model; then --sample,
or names of cases, or none for all."""

import os
import re
import shutil
import subprocess
import sys
import tempfile

SECONDS = 60
KILL = "KILL"
ERRORS = {
    "openat": ["EMFILE", "ENOSPC", KILL],
    "write": ["EINTR", "ENOSPC", KILL],
    "pwrite64": ["ENOSPC"],
    "close": ["EIO", KILL],
    "rename": ["ENOSPC", KILL],
    "renameat": ["ENOSPC", KILL],
    "linkat": ["ENOSPC", "EPERM", KILL],
    "mkdirat": ["ENOSPC"],
    "mmap": ["ENOMEM"],
    "newfstatat": ["ENOMEM"],
    "fsync": ["EIO"],
    "clone": ["EAGAIN"],
}
SHAPE = ["--shape", "image=1x1x28x28"]
COMMANDS = {
    "compile": ["compile", "model.onnx", *SHAPE, "--target", "c", "--output", "out.so", "--dump", "dump"],
    "profile": ["profile", "model.so", "--device", "cpu", "--runs", "1", "--seconds", "0", "--dump-dir", "dump"],
}
TEMPORARY = r"tmp/|.*(\.[0-9a-f]{8}\.tmp|\.backplane-[0-9a-f]{16})$"


class Command:
    def __init__(self, build, model, name, folder):
        self.program, self.arguments = os.path.join(build, "backplane"), COMMANDS[name]
        self.folder, self.model, self.library = folder, model, None

    def begin(self):
        shutil.rmtree(self.folder, ignore_errors=True)
        for name in ("", "tmp", "dump"):
            os.mkdir(os.path.join(self.folder, name), 0o700)
        shutil.copy(self.model, os.path.join(self.folder, "model.onnx"))
        if self.library:
            shutil.copy(self.library, os.path.join(self.folder, "model.so"))
        with open(os.path.join(self.folder, "out.so"), "wb") as stream:
            stream.write(b"\x7fELF, an old library")
        return self.read()

    def read(self):
        found = {}
        for place, _, files in os.walk(self.folder):
            for file in files:
                path = os.path.join(place, file)
                with open(path, "rb") as stream:
                    found[os.path.relpath(path, self.folder)] = stream.read()
        return found

    def run(self, before=(), arguments=None):
        environment = dict(os.environ, TMPDIR=os.path.join(self.folder, "tmp"), BACKPLANE_NUM_THREADS="1")
        done = subprocess.run([*before, self.program, *(arguments or self.arguments)], cwd=self.folder, env=environment, timeout=SECONDS,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
        return done.returncode, done.stderr.decode(errors="replace")


def count_calls(command, trace):
    """Return the calls of the command itself: how many the loader makes, and how many there are."""
    command.begin()
    command.run(["strace", "-qqq", "-o", trace])
    loading, counts = None, {}
    with open(trace, encoding="utf-8", errors="replace") as stream:
        for line in stream:
            call = line.split("(")[0]
            counts[call] = counts.get(call, 0) + 1
            if call == "munmap" and "prlimit64" in counts and loading is None:
                loading = dict(counts)
    return loading or {}, counts


def check(command, old, new, call, number, fault):
    what = "signal=KILL" if fault == KILL else "error=" + fault
    command.begin()
    status, said = command.run(["strace", "-qqq", "-o", "/dev/null", "-e", "trace=" + call, "-e", f"inject={call}:{what}:when={number}"])
    faults, found = [], command.read()
    for path in sorted(set(old) | set(found)):
        if found.get(path) not in (old.get(path), new.get(path)) and not (fault == KILL and re.match(TEMPORARY, path)):
            faults.append(f"{path} is neither the old file nor the new one")
    if status == 0 and any(found.get(path) != new[path] for path in new):
        faults.append("it succeeds without all of its files")
    if fault != KILL and status not in (0, 1) or status == 1 and not said:
        faults.append(f"status {status}: {said[-300:]}")
    return faults


def main():
    build, model, names = sys.argv[1], sys.argv[2], sys.argv[3:]
    work, number, library = tempfile.mkdtemp(prefix="backplane-faults-"), 0, os.path.join(tempfile.mkdtemp(), "model.so")
    build = os.path.join(build, ".libs") if os.path.exists(os.path.join(build, ".libs", "backplane")) else build
    for name in COMMANDS:
        command = Command(build, model, name, os.path.join(work, name))
        if name != "compile":
            command.library = library
        old, result, new = command.begin(), command.run(), command.read()
        assert result[0] == 0, result
        if name == "compile":
            shutil.copy(os.path.join(command.folder, "out.so"), library)
        loading, counts = count_calls(command, os.path.join(work, "trace"))
        cases = [(call, at, fault) for call, faults in ERRORS.items() for fault in faults
                 for at in range(loading.get(call, 0) + 1, counts.get(call, 0) + 1)]
        for call, at, fault in cases[:: max(1, len(cases) // 25)] if names == ["--sample"] else cases:
            case = f"{name}_{call}_{at}_{fault}"
            if names and names != ["--sample"] and case not in names:
                continue
            faults, number = check(command, old, new, call, at, fault), number + 1
            print("\n".join([("not " if faults else "") + f"ok {number} {case}"] + ["# " + f for f in faults]), flush=True)
    print(f"1..{number}")
    shutil.rmtree(work)
    shutil.rmtree(os.path.dirname(library))


if __name__ == "__main__":
    main()
