# SPDX-License-Identifier: Apache-2.0
"""Let system calls of commands fail once, by strace, or kill the command at the call. A file of the user is whole: the
old one or the new one. A command that succeeds has written the same files as without faults. The
command's output is the same, too, or names the fault. A command that fails says why, and leaves no
other file. Prints TAP. Arguments: build folder, model; then --sample, or names of cases, or none
for all."""

import errno
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
# The errors of calls of commands that write no file.
READ_ERRORS = {
    "openat": ["EMFILE", "ENOMEM"],
    "read": ["EINTR", "EIO"],
    "pread64": ["EIO"],
    "write": ["EINTR", "ENOSPC"],
    "mmap": ["ENOMEM"],
    "newfstatat": ["ENOMEM"],
    "getdents64": ["EIO"],
    "fcntl": ["EMFILE"],
    "pipe2": ["EMFILE"],
    "clone": ["EAGAIN"],
}
SHAPE = ["--shape", "image=1x1x28x28"]
COMMANDS = {
    "compile": ["compile", "model.onnx", *SHAPE, "--target", "c", "--output", "out.so", "--dump", "dump"],
    "profile": ["profile", "model.so", "--device", "cpu", "--runs", "1", "--seconds", "0", "--dump-dir", "dump"],
}
READERS = {
    "list": ["list"],
    "probe": ["list", "--probe", "--json"],
    "doctor": ["doctor", "--json"],
    "inspect": ["inspect", "model", "model.so", "--json"],
    "bench": ["bench", "model.so", "--device", "cpu", "--seconds", "0", "--json"],
    "cache": ["cache", "size", "--json"],
}
# If a call that lists a folder fails, the folder cannot be read and emptied. A later process
# removes the folder.
LISTING = ("newfstatat", "getdents64")
TEMPORARY = r"tmp/|.*\.backplane-[0-9a-f]{16}$"


class Command:
    def __init__(self, build, model, name, folder):
        self.name = name
        self.program, self.arguments = os.path.join(build, "backplane"), {**COMMANDS, **READERS}[name]
        self.statuses = (0, 1, 3, 4, 5) if name == "doctor" else (0, 1)
        self.errors = READ_ERRORS if name in READERS else ERRORS
        self.folder, self.model, self.library, self.plugins = folder, model, None, None

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
        if self.plugins:
            environment["BACKPLANE_PLUGIN_PATH"] = self.plugins
        done = subprocess.run([*before, self.program, *(arguments or self.arguments)], cwd=self.folder, env=environment, timeout=SECONDS,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
        return done.returncode, done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace")


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


def leave_measures_out(text):
    """Return the text without numbers and names: without /proc/cpuinfo the CPU has its architecture's name."""
    return re.sub(r'"name": ".*"|[0-9.]+(e-?[0-9]+)?', "", text)


def names_fault(text, fault):
    """Return whether the text has the error of a call, or the loader's own words for a lack of memory."""
    return os.strerror(getattr(errno, fault)) in text or "failed to map segment" in text


def check(command, old, new, said_before, call, number, fault):
    what = "signal=KILL" if fault == KILL else "error=" + fault
    command.begin()
    status, output, said = command.run(["strace", "-qqq", "-o", "/dev/null", "-e", "trace=" + call, "-e", f"inject={call}:{what}:when={number}"])
    faults, found = [], command.read()
    for path in sorted(set(old) | set(found)):
        may_stay = (fault == KILL or call in LISTING) and re.match(TEMPORARY, path)
        if found.get(path) not in (old.get(path), new.get(path)) and not may_stay:
            faults.append(f"{path} is neither the old file nor the new one")
    if status == 0 and any(found.get(path) != new[path] for path in new):
        faults.append("it succeeds without all of its files")
    is_other = command.name in READERS and leave_measures_out(output) != leave_measures_out(said_before)
    if status == 0 and is_other and not names_fault(output + said, fault):
        faults.append(f"it succeeds with other output, and does not name the fault: {output[-300:]}")
    if fault != KILL and status not in command.statuses or status == 1 and not said:
        faults.append(f"status {status}: {said[-300:]}")
    return faults


def main():
    build, model, names = sys.argv[1], sys.argv[2], sys.argv[3:]
    work, number, library = tempfile.mkdtemp(prefix="backplane-faults-"), 0, os.path.join(tempfile.mkdtemp(), "model.so")
    build = os.path.join(build, ".libs") if os.path.exists(os.path.join(build, ".libs", "backplane")) else build
    plugins = os.path.join(work, "plugins")
    os.mkdir(plugins)
    shutil.copy(os.path.join(build, "backplane-cpu.so"), plugins)
    for name in [*COMMANDS, *READERS]:
        command = Command(build, model, name, os.path.join(work, name))
        command.plugins = plugins if name in READERS else None
        if name != "compile":
            command.library = library
        old, result, new = command.begin(), command.run(), command.read()
        assert result[0] == 0, result
        if name == "compile":
            shutil.copy(os.path.join(command.folder, "out.so"), library)
        loading, counts = count_calls(command, os.path.join(work, "trace"))
        cases = [(call, at, fault) for call, faults in command.errors.items() for fault in faults
                 for at in range(loading.get(call, 0) + 1, counts.get(call, 0) + 1)]
        share = 20 if name in READERS else 25
        for call, at, fault in cases[:: max(1, len(cases) // share)] if names == ["--sample"] else cases:
            case = f"{name}_{call}_{at}_{fault}"
            if names and names != ["--sample"] and case not in names:
                continue
            faults, number = check(command, old, new, result[1], call, at, fault), number + 1
            print("\n".join([("not " if faults else "") + f"ok {number} {case}"] + ["# " + f for f in faults]), flush=True)
    print(f"1..{number}")
    shutil.rmtree(work)
    shutil.rmtree(os.path.dirname(library))


if __name__ == "__main__":
    main()
