# SPDX-License-Identifier: Apache-2.0
"""Let each system call of a trial fail once, by strace: in the commands that start the trial, in the helper program,
and in its child. Or kill the helper or its child at the call. The command lists a good plugin and a plugin that
aborts. The command ends in order, the plugin that aborts runs only in trials, no process or file is left, and a
second command without faults finds both plugins. Prints TAP. Arguments: build folder; then --sample, or names of
cases, or none for all."""

import ctypes
import os
import re
import shutil
import subprocess
import sys

from broken_plugins import LIST, PR_SET_CHILD_SUBREAPER, Set, describe

# The errors of calls, by name. Calls that are missing here request no resource that may run out. If brk() fails, or
# futex() is interrupted, the C library itself ends the program.
ERRORS = {
    "openat": ["EMFILE", "ENOMEM", "EINTR"],
    "open": ["EMFILE"],
    "read": ["EINTR", "EIO"],
    "pread64": ["EINTR", "EIO"],
    "write": ["EINTR", "ENOSPC"],
    "mmap": ["ENOMEM"],
    "mprotect": ["ENOMEM"],
    "fork": ["EAGAIN"],
    "vfork": ["EAGAIN"],
    "clone": ["EAGAIN", "ENOMEM"],
    "clone3": ["EAGAIN", "ENOMEM"],
    "execve": ["ENOMEM", "EAGAIN"],
    "pipe2": ["EMFILE"],
    "dup2": ["EMFILE", "EINTR"],
    "fcntl": ["EMFILE"],
    "pidfd_open": ["EMFILE", "ENOSYS"],
    "signalfd4": ["EMFILE"],
    "close_range": ["ENOSYS"],
    "poll": ["EINTR", "ENOMEM"],
    "wait4": ["EINTR"],
    "newfstatat": ["ENOMEM"],
    "fstat": ["ENOMEM"],
    "getdents64": ["ENOMEM"],
    "mkdirat": ["ENOSPC"],
    "mkdir": ["ENOSPC"],
    "renameat": ["ENOSPC"],
    "flock": ["EINTR", "ENOLCK"],
    "getrandom": ["EINTR"],
    "prctl": ["ENOMEM"],
    "setpgid": ["EPERM"],
    "prlimit64": ["EPERM"],
    "clock_nanosleep": ["EINTR"],
    "faccessat": ["EIO"],
    "faccessat2": ["EIO"],
    "readlink": ["ENOMEM"],
}
ROLES = ["host", "doctor", "helper"]  # list --probe, another command, and what both start
DEADLINE = 5


class Case:
    def __init__(self, role, call, number, fault):
        self.role, self.call, self.number, self.fault = role, call, number, fault
        self.name = f"{role}_{call}_{number}_{fault}"

    def injection(self):
        what = "signal=KILL" if self.fault == "KILL" else "error=" + self.fault
        return ["-e", f"trace={self.call}", "-e", f"inject={self.call}:{what}:when={self.number}"]


class Tracer:
    """A Set whose helper program is started by strace if a variable requests it."""

    def __init__(self, build):
        self.set = Set(build, "root")
        helper = os.path.join(self.set.folder, "helper")
        with open(helper, "w", encoding="utf-8") as stream:
            stream.write(f'#!/bin/sh\nexec $BP_TEST_TRACE "{self.set.trial}" "$@"\n')
        os.chmod(helper, 0o755)
        self.set.trial = helper

    def begin(self):
        return self.set.begin("abort", "initialize")

    def run(self, folder, role, options):
        """Return the options of strace for a command and its threads, or for the helper and its child."""
        strace = ["strace", "-qqq", "-f", *options]
        if role != "helper":
            arguments = LIST if role == "host" else ["doctor", "--json"]
            return self.set.run(folder, None, DEADLINE, before=[*strace, "-b", "execve"], arguments=arguments)
        return self.set.run(folder, None, DEADLINE, settings={"BP_TEST_TRACE": " ".join([*strace, "-D"])})

    def count_calls(self, role):
        """Return the number of times of each call, in the process that makes it most often."""
        folder, counts = self.begin(), {}
        trace = self.set.path(folder, "trace")
        self.run(folder, role, ["-o", trace])
        with open(trace, encoding="utf-8", errors="replace") as stream:
            for line in stream:
                match = re.match(r"(\d+) +([a-z0-9_]+)\(", line)
                if match:
                    counts.setdefault(match[2], {}).setdefault(match[1], 0)
                    counts[match[2]][match[1]] += 1
        shutil.rmtree(self.set.path(folder))
        return {call: max(by_process.values()) for call, by_process in counts.items()}

    def count_loading(self):
        """The calls of the command up to the point where the loader drops its cache, the loader's last action."""
        folder, counts = self.begin(), {}
        trace = self.set.path(folder, "trace")
        self.set.run(folder, None, DEADLINE, before=["strace", "-qqq", "-o", trace])
        with open(trace, encoding="utf-8", errors="replace") as stream:
            for line in stream:
                call = line.split("(")[0]
                if call == "munmap" and "prlimit64" in counts:
                    break
                counts[call] = counts.get(call, 0) + 1
        shutil.rmtree(self.set.path(folder))
        return counts

    def all_cases(self):
        """The first calls of the command are left out: a fault there lets the loader end the program."""
        loading = self.count_loading()
        for role in ROLES:
            for call, count in sorted(self.count_calls(role).items()):
                for fault in ERRORS.get(call, []) + (["KILL"] if role == "helper" else []):
                    for number in range(1 + (loading.get(call, 0) if role != "helper" else 0), count + 1):
                        yield Case(role, call, number, fault)

    def check(self, case):
        folder = self.begin()
        options = ["-o", self.set.path(folder, "trace"), *case.injection()]
        status, listed = self.run(folder, case.role, options)
        faults = self.set.find_left(folder)
        if status is None or status < 0:
            faults.append(f"status {status}: {listed}")
        elif isinstance(listed, dict) and "a part of libbackplane cannot be loaded" not in str(listed.get("error")):
            faults += check_findings(listed) if case.role == "doctor" else check_list(listed)
        elif not isinstance(listed, dict) and "stderr b''" in listed:
            faults.append(f"it fails and gives no reason: {listed}")
        _, listed = self.set.run(folder, None, DEADLINE)
        faults += self.set.find_left(folder)
        good, bad = describe(listed, "azazc8"), describe(listed, "c8az")
        if good != ("ok", 1) or bad[0] != "crashed":
            faults.append(f"then the good plugin is {good}, the one that aborts {bad}")
        shutil.rmtree(self.set.path(folder))
        return faults


def check_list(listed):
    faults = []
    for plugin in listed["plugins"]:
        if plugin["code"].startswith("file-m") or plugin["code"].startswith("descriptor-"):
            faults.append(f"a file that is whole is {plugin['code']}")
        if plugin["code"] != "ok" and plugin["reason"]:
            continue
        kind = plugin["devices"][0]
        devices = [d for d in listed["devices"] if d.get("device") == kind + ":0"]
        reasons = [d["reason"] for d in listed["devices"] if d.get("kind") == kind and d.get("reason")]
        if not devices and not reasons:
            faults.append(f"{plugin['path']} has neither a device nor a reason")
        if devices and plugin["path"].endswith("bad.so"):
            faults.append("the plugin that aborts was used")
    return faults


def check_findings(diagnosis):
    """Return whether both plugins are found, or an accepted reason is given."""
    findings = diagnosis["findings"]
    found = {os.path.basename(f["path"]) for f in findings}
    is_short = any(not f["path"] and f["severity"] != "ok" for f in findings)
    return [] if is_short or {"good.so", "bad.so"} <= found else [f"there is nothing of some of the plugins: {findings}"]


def work(tracer, cases):
    for case in cases:
        faults = tracer.check(case)
        sys.stdout.write("\n".join([("not " if faults else "") + f"ok {case.name}"] + ["# " + f[:900] for f in faults]) + "\n")
        sys.stdout.flush()


def main():
    build, names = sys.argv[1], sys.argv[2:]
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    tracer = Tracer(build)
    cases = list(tracer.all_cases())
    if names == ["--sample"]:
        cases = cases[:: max(1, len(cases) // 60)]
    elif names:
        cases = [case for case in cases if case.name in names]
    shutil.rmtree(tracer.set.folder)
    print(f"1..{len(cases)}", flush=True)
    workers, children = min(len(os.sched_getaffinity(0)), 8), []
    for share in range(workers):
        child = os.fork()
        if not child:
            ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
            own = Tracer(build)
            work(own, cases[share::workers])
            shutil.rmtree(own.set.folder)
            os._exit(0)
        children.append(child)
    sys.exit(max(os.waitpid(child, 0)[1] for child in children) != 0)


if __name__ == "__main__":
    main()
