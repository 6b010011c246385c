# SPDX-License-Identifier: Apache-2.0
"""Test broken plugins beside a good plugin. The broken plugins are generated from tables of acts, the places of the
acts, the limits of the process, and its user. The command lists the good plugin and its device, reports the fault
of the broken plugin, ends in time, and leaves neither a process nor a file. Prints TAP. Arguments: build folder;
then --sample, or names of cases, or none for all. BP_TEST_COMMAND: the command of an installed package, which is
tested instead of the build's command, with the same plugins."""

import ctypes
import itertools
import json
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time

DEADLINE = 0.5  # seconds after which a hanging act is ended
SECONDS = 30  # time of the command, which has 20 seconds for each round of trials
GRACE = 1  # for processes that the kernel is ending, those of a helper program that was killed
NOBODY = 65534
PR_SET_CHILD_SUBREAPER = 36
LIST = ["list", "--probe", "--json"]

# The expected result of an act during the trial of the plugin.
ACTS = {
    "crash": "crashed",
    "abort": "crashed",
    "term": "crashed",
    "bad-instruction": "crashed",
    "thread-crash": "crashed",
    "stack-overflow": "crashed",
    "close-all": "crashed",
    "kill-group": "crashed",
    "exit": "exited",
    "quick-exit": "exited",
    "close-files": "trial-garbled",
    "stop": "stopped",
    "kill-parent": "trial-garbled",
    "double-fork": "leaves-processes",
    "fork-and-return": "leaves-processes",
    "big-file": "crashed",
    "flood": "ok",
    "change-process": "ok",
    "loop": "timed-out",
    "sleep": "timed-out",
    "stop-parent": "timed-out",
    "fork-and-sleep": "timed-out",
    "take-memory": None,  # whatever, with a limit alone
    "fill-disk": None,
}
HANGING = {"loop", "sleep", "stop-parent", "fork-and-sleep"}
# Acts without effect at exit: the report is complete by then, and a program may end in these ways.
HARMLESS_AT_EXIT = {"exit", "quick-exit", "close-files", "fork-and-return"}
PLACES = ["load", "entry", "initialize", "count", "attr", "exit", "unload"]
# A list and a trial do not reach these places.
PLACES_OF_USE = ["alloc", "copy", "call"]


def limit_to(number, value):
    return lambda: resource.setrlimit(number, (value, value))


# Limits of the command's process: the function that sets the limit before exec, and the state of the cache.
LIMITS = {
    "none": (None, "cache"),
    "no-cache": (None, "/proc/nowhere"),
    "full-disk": (None, "full"),
    "read-only-disk": (None, "read-only"),
    "file-size": (limit_to(resource.RLIMIT_FSIZE, 0), "cache"),
    "files": (limit_to(resource.RLIMIT_NOFILE, 24), "cache"),
    "few-files": (limit_to(resource.RLIMIT_NOFILE, 12), "cache"),
    "memory": (limit_to(resource.RLIMIT_AS, 256 << 20), "cache"),
    "stack": (limit_to(resource.RLIMIT_STACK, 512 << 10), "cache"),
    "time": (limit_to(resource.RLIMIT_CPU, 5), "cache"),
    "processes": (limit_to(resource.RLIMIT_NPROC, 0), "cache"),
}
# The reasons given for a plugin, good or broken, that was not used because the environment lacks a resource. Such a
# result is not cached, so the plugin's code is "ok", and its devices have a reason with one of these texts.
SHORT = "cannot be tried out|Too many open files|[Cc]annot allocate memory"


class Case:
    def __init__(self, act, place, limit, user):
        self.act, self.place, self.limit, self.user = act, place, limit, user
        self.name = f"{act}_at_{place}_with_limit_{limit}_as_{user}"

    def codes(self):
        """The messages allowed for the broken plugin; None allows any message."""
        code = ACTS[self.act]
        if code is None:
            return None
        if self.place in PLACES_OF_USE or (self.place in ("exit", "unload") and self.act in HARMLESS_AT_EXIT):
            code = "ok"
        return {code} if self.limit == "none" else {code, "short"}


def all_cases(users):
    for act, place, limit, user in itertools.product(ACTS, PLACES + PLACES_OF_USE, LIMITS, users):
        if act == "take-memory" and limit != "memory" or act == "fill-disk" and limit not in ("file-size", "full-disk"):
            continue
        if limit == "processes" and user == "root":
            continue  # the rule holds only for users other than root
        yield Case(act, place, limit, user)


def sample(cases):
    """Return every act in a place, every place, and every limit with acts of each kind."""
    quick = ["crash", "exit", "double-fork", "change-process"]
    for index, case in enumerate(cases):
        whole = case.limit == "none" and case.user == "root" and case.place in ("load", "exit")
        if whole and (case.act not in HANGING or case.place == "load") or case.act in quick and index % 17 == 0 or index % 131 == 0:
            yield case


class Set:
    """A folder with the command, its plugins, and all folders that the command may write to. The folder belongs to one user."""

    def __init__(self, build, user):
        self.user, self.folder = user, tempfile.mkdtemp(prefix="backplane-broken-")
        os.chmod(self.folder, 0o755)
        self.number = 0
        with open(os.path.join(build, "tests/mock/.libs/defect.so"), "rb") as stream:
            self.plugin = stream.read()
        self.made = {}
        self.command, self.trial = os.environ.get("BP_TEST_COMMAND"), None
        self.libraries = os.environ.get("LD_LIBRARY_PATH", "")
        if not self.command:
            self.command, self.trial = self.copy(build, ".libs/backplane"), self.copy(build, "backplane-trial")
            self.libraries = self.path("lib")
            os.mkdir(self.libraries)
            for name in os.listdir(os.path.join(build, ".libs")):
                if re.fullmatch(r"libbackplane[-a-z]*\.so\.\d+|backplane-(cache|doctor|plugins|target|toolchain|trial|tvm)\.so", name):
                    shutil.copy(os.path.join(build, ".libs", name), self.libraries)

    def copy(self, build, file):
        return shutil.copy(os.path.join(build, file), self.folder)

    def path(self, *names):
        return os.path.join(self.folder, *names)

    def owned(self, *names):
        path = self.path(*names)
        os.mkdir(path, 0o700)
        if self.user == "nobody":
            os.chown(path, NOBODY, NOBODY)
        return path

    def mount(self, name):
        """A read-only file system; None if mounting is not permitted."""
        if name not in self.made:
            path = self.owned(name)
            done = not subprocess.call(["mount", "-t", "tmpfs", "-o", "size=64k,mode=700", "none", path], stderr=subprocess.DEVNULL)
            if done and self.user == "nobody":
                os.chown(path, NOBODY, NOBODY)
            if done and name == "full":
                try:
                    with open(os.path.join(path, "all"), "wb", buffering=0) as stream:
                        while stream.write(b"x" * 4096):
                            pass
                except OSError:
                    pass
            elif done:
                done = not subprocess.call(["mount", "-o", "remount,ro", path])
            self.made[name] = path if done else None
        return self.made[name]

    def write_plugin(self, file, defect, name):
        before, fill = b"defect=none".ljust(45), f"defect={defect}".encode().ljust(45)
        assert before in self.plugin
        with open(file, "wb") as stream:
            stream.write(self.plugin.replace(before, fill).replace(b"azazazazazazaz", name))

    def begin(self, act, place):
        """Create the plugins of a case, and empty folders of the user."""
        self.number += 1
        case = f"case-{self.number}"
        os.mkdir(self.path(case))
        for name in ("cwd", "tmp", "home"):
            self.owned(case, name)
        os.mkdir(self.path(case, "plugins"))
        self.write_plugin(self.path(case, "plugins", "good.so"), "none", b"azazazazazazc8")
        if act:
            self.write_plugin(self.path(case, "plugins", "bad.so"), f"{act}@{place}", b"azazazazazc8az")
        return case

    def run(self, case, limit, deadline, cache="cache", before=(), settings=None, arguments=LIST):
        """Return the exit status, and the list or the message. `before` is a program that starts the command."""
        environment = {
            "PATH": "/usr/bin:/bin",
            "HOME": self.path(case, "home"),
            "TMPDIR": self.path(case, "tmp"),
            "BACKPLANE_PLUGIN_PATH": self.path(case, "plugins"),
            "BACKPLANE_CACHE_DIR": self.owned_cache(case) if cache == "cache" else cache,
            "BACKPLANE_PLUGIN_DEADLINE": str(deadline),
        }
        if self.libraries:
            environment["LD_LIBRARY_PATH"] = self.libraries
        if self.trial:
            environment["BACKPLANE_TRIAL_PROGRAM"] = self.trial
        environment.update(settings or {})
        for name in ("ASAN_OPTIONS", "LSAN_OPTIONS", "TSAN_OPTIONS"):
            if name in os.environ:
                environment[name] = os.environ[name]
        ids = {"user": NOBODY, "group": NOBODY, "extra_groups": []} if self.user == "nobody" else {}
        with subprocess.Popen([*before, self.command, *arguments], cwd=self.path(case, "cwd"), env=environment,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, preexec_fn=limit,
                              **ids) as process:
            try:
                said, errors = process.communicate(timeout=SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.communicate()
                return None, "it did not end"
        try:
            listed = json.loads(said)
        except ValueError:
            return process.returncode, f"status {process.returncode}, stdout {said[-200:]!r}, stderr {errors[-600:]!r}"
        return process.returncode, listed

    def owned_cache(self, case):
        path = self.path(case, "cache")
        return path if os.path.exists(path) else self.owned(case, "cache")

    def find_left(self, case):
        """Return descriptions of the processes and files that a case left behind, and kill the processes."""
        found = []
        if not reap(GRACE):
            found.append("a process is left: " + read_children())
            for child in read_children().split():
                os.kill(int(child), signal.SIGKILL)
            reap(SECONDS)
        for name in ("cwd", "tmp", "home", "home/.cache"):
            files = os.listdir(self.path(case, name)) if os.path.exists(self.path(case, name)) else []
            files = [f for f in files if name != "home" or f != ".cache"]
            if files and (name != "home/.cache" or "backplane" in files):  # drivers keep theirs there
                found.append(f"left in {name}: {files}")
        for folder, _, files in os.walk(self.path(case, "cache")):
            odd = [f for f in files if not re.fullmatch(r"[0-9a-f]{64}(\.lock|\.quarantine)?", f)]
            if odd:
                found.append(f"left in {folder}: {odd}")
        return found


def reap(seconds):
    """Return whether all children of this process, adopted orphans included, have ended within the time."""
    until = time.monotonic() + seconds
    try:
        while time.monotonic() < until:
            if os.waitpid(-1, os.WNOHANG)[0] == 0:
                time.sleep(0.002)
    except ChildProcessError:
        return True
    return False


def read_children():
    with open(f"/proc/self/task/{os.getpid()}/children", encoding="ascii") as stream:
        return stream.read()


def describe(listed, end):
    """Return the code and the number of devices of the plugin whose name has this ending."""
    if isinstance(listed, str):
        return listed, 0
    plugins = [p for p in listed["plugins"] if p["name"].endswith(end)]
    devices = [d for d in listed["devices"] if d.get("device", "").endswith(end + ":0")]
    reasons = [d["reason"] for d in listed["devices"] if d.get("kind", "").endswith(end) and "reason" in d]
    if reasons and re.search(SHORT, reasons[0]):
        return "short", 0
    return (plugins[0]["code"] if plugins else "not listed"), len(devices)


def check(some, case, expected):
    """Return the faults of a case."""
    limit, cache = LIMITS[case.limit]
    if cache in ("full", "read-only"):
        cache = some.mount(cache)
    folder = some.begin(case.act, case.place)
    deadline = DEADLINE if case.act in HANGING or case.act == "kill-parent" else 20
    status, listed = some.run(folder, limit, deadline, cache)
    faults = some.find_left(folder)
    good, bad = describe(listed, "azazc8"), describe(listed, "c8az")
    if status is None or status < 0:
        faults.append(f"status {status}: {listed}")
    elif good != expected:
        faults.append(f"the good plugin is {good}, not {expected}")
    elif case.codes() is not None and bad[0] not in case.codes():
        faults.append(f"the broken plugin is {bad}, not {case.codes()}")
    if case.limit != "none" and not faults:
        _, listed = some.run(folder, None, deadline)
        faults += some.find_left(folder)
        if describe(listed, "azazc8") != ("ok", 1):
            faults.append(f"then, without a limit, the good plugin is {describe(listed, 'azazc8')}")
    shutil.rmtree(some.path(folder))
    return faults


class Checker:
    """Records the results of the good plugin alone under each limit, which the broken plugin does not cause."""

    def __init__(self, build):
        self.build, self.sets, self.alone = build, {}, {}

    def set_of(self, user):
        if user not in self.sets:
            self.sets[user] = Set(self.build, user)
        return self.sets[user]

    def expect(self, case):
        key = case.limit, case.user
        if key not in self.alone:
            some = self.set_of(case.user)
            limit, cache = LIMITS[case.limit]
            if cache in ("full", "read-only"):
                cache = some.mount(cache)
            folder = some.begin(None, None)
            status, listed = some.run(folder, limit, 20, cache) if cache else (None, "")
            good = describe(listed, "azazc8")
            is_possible = status is not None and status >= 0 and good in (("ok", 1), ("short", 0))
            self.alone[key] = good if is_possible else None
        return self.alone[key]

    def end(self):
        for some in self.sets.values():
            for path in some.made.values():
                if path:
                    subprocess.call(["umount", path])
            shutil.rmtree(some.folder)


def work(build, cases, stream):
    checker = Checker(build)
    for case in cases:
        expected = checker.expect(case)
        if expected is None:
            line = f"ok {case.name} # SKIP the command may not, or cannot, run so"
        else:
            faults = check(checker.set_of(case.user), case, expected)
            line = "\n".join([("not " if faults else "") + f"ok {case.name}"] + ["# " + f[:900] for f in faults])
        stream.write(line + "\n")
        stream.flush()
    checker.end()


def main():
    build, names = sys.argv[1], sys.argv[2:]
    users = ["root", "nobody"] if os.geteuid() == 0 else ["root"]  # the first stands for this process's user
    cases = list(all_cases(users))
    if names == ["--sample"]:
        cases = list(sample(cases))
    elif names:
        cases = [case for case in cases if case.name in names]
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    workers = min(len(os.sched_getaffinity(0)), 8)
    print(f"1..{len(cases)}", flush=True)
    children = []
    for share in range(workers):
        child = os.fork()
        if not child:
            ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
            work(build, cases[share::workers], sys.stdout)
            os._exit(0)
        children.append(child)
    sys.exit(max(os.waitpid(child, 0)[1] for child in children) != 0)


if __name__ == "__main__":
    main()
