# SPDX-License-Identifier: Apache-2.0
"""Builds copies of the template plugins as mutants.txt and mutants-npu.txt edit them and tests each with the
conformance kit. The first failure must be the check that the file names. Prints TAP. Arguments: source folder,
build folder; then names of copies, or --sample for those that conform and every sixth mutant, which gets no more
than the check that names it and what that builds on, or --edits for whether the edits fit the template, or none
for all copies and the template itself, with all checks."""

import concurrent.futures
import hashlib
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile

FLAGS = ["-O0", "-fPIC", "-fvisibility=hidden", "-pthread", "-D_GNU_SOURCE", "-w"]


TEMPLATES = {"mutants.txt": "sdk/template", "mutants-npu.txt": "sdk/template-npu"}


class Mutant:
    """A block of mutants.txt, or of another file."""

    def __init__(self, name, check, lines, template):
        self.name, self.check, self.fault, self.template = name, check, lines[0], template
        self.edits, self.flags, file, current = [], [], None, None
        for line in lines[1:]:
            if re.fullmatch(r"[a-z_]+\.[ch]", line):
                file = line
            elif line.startswith("flags "):
                self.flags = line.split()[1:]
            elif line.startswith("- "):
                current = [file, [line[2:]], None]
                self.edits.append(current)
            elif line.startswith("+ "):
                current[2] = [line[2:]]
            else:
                current[1 if current[2] is None else 2].append(line)

    def apply(self, folder):
        """Edit the copies of the sources. Return an error message, or None."""
        for file, old, new in self.edits:
            path = os.path.join(folder, file)
            if not os.path.exists(path):
                path = os.path.join(folder, "backplane", file)
            with open(path, encoding="utf-8") as stream:
                text = stream.read()
            if text.count("\n".join(old)) != 1:
                return f"{file} has this {text.count(chr(10).join(old))} times: " + "\n".join(old)
            with open(path, "w", encoding="utf-8") as stream:
                stream.write(text.replace("\n".join(old), "\n".join(new)))
        return None


def read_mutants(path, template):
    mutants, block = [], None
    with open(path, encoding="utf-8") as stream:
        for line in stream.read().splitlines():
            match = re.fullmatch(r"\[([a-z0-9-]+)\] (\S+)", line)
            if match:
                block = []
                mutants.append((match.group(1), match.group(2), block))
            elif block is not None and line:
                block.append(line)
    return [Mutant(*each, template) for each in mutants]


def copy_sources(source, template, folder):
    shutil.copytree(os.path.join(source, template, "src"), folder, dirs_exist_ok=True)
    shutil.copytree(os.path.join(source, "sdk/include/backplane"), os.path.join(folder, "backplane"))


def read(path):
    with open(path, "rb") as stream:
        return stream.read()


class Compiler:
    """Compiles plugins. Copies with equal sources and headers share an object file."""

    def __init__(self, source, objects):
        self.source, self.objects = source, objects
        self.command = shlex.split(os.environ.get("CC", "cc"))

    def run(self, arguments):
        result = subprocess.run([*self.command, *FLAGS, *arguments], capture_output=True, text=True)
        if result.returncode != 0:
            raise ValueError(f"the compiler ended with {result.returncode}\n{result.stderr}")

    def compile(self, folder, name, headers):
        path = os.path.join(folder, name)
        made = os.path.join(self.objects, hashlib.sha256(headers + read(path)).hexdigest() + ".o")
        if not os.path.exists(made):
            self.run(["-I" + folder, "-I" + os.path.join(self.source, "sdk/include"), "-c", "-o", path + ".o", path])
            os.replace(path + ".o", made)
        return made

    def build(self, folder, flags):
        """Compile the sources in a folder to a plugin. Raise ValueError if the compiler rejects the sources."""
        both = [folder, os.path.join(folder, "backplane")]
        headers = b"".join(read(os.path.join(f, h)) for f in both for h in sorted(os.listdir(f)) if h.endswith(".h"))
        made = [self.compile(folder, f, headers) for f in sorted(os.listdir(folder)) if f.endswith(".c") and f != "chip.c"]
        if os.path.exists(os.path.join(folder, "chip.c")):
            self.run(["-o", os.path.join(folder, "simdev-chip"), self.compile(folder, "chip.c", headers), "-lm"])
        plugin = os.path.join(folder, "mutant.so")
        self.run(["-shared", "-o", plugin, *flags, *made])
        return plugin


def run_kit(build_folder, plugin, only):
    """Return the name of the first check that fails, or ""; the exit status; the whole report."""
    command = [os.path.join(build_folder, "backplane"), "verify", "--conformance", "--fail-fast", "--format", "tap", plugin]
    command += ["--only", only] if only else []
    result = subprocess.run(command, capture_output=True, text=True, errors="replace")
    match = re.search(r"^not ok \d+ - (\S+)", result.stdout, re.M)
    return (match.group(1) if match else ""), result.returncode, result.stdout + result.stderr


def as_comment(text):
    return "".join(f"# {line}\n" for line in text.splitlines())


def build_and_run(compiler, build_folder, mutant, folder, is_whole):
    """Return the reason why the named check did not catch the mutant, or ""."""
    copy_sources(compiler.source, mutant.template, folder)
    problem = mutant.apply(folder)
    if problem:
        return problem
    try:
        plugin = compiler.build(folder, mutant.flags)
    except ValueError as error:
        return str(error)
    found, status, report = run_kit(build_folder, plugin, None if is_whole else mutant.check)
    if (found, status) == ((mutant.check, 1) if mutant.check != "-" else ("", 0)):
        return ""
    rest = re.sub(r"^ok .*\n", "", report, flags=re.M)
    return f"failed first: {found or 'nothing'}; the status was {status}\n{rest}"


def check(compiler, build_folder, number, mutant, is_whole):
    """Return the TAP lines of one mutant, or of a template itself."""
    with tempfile.TemporaryDirectory() as folder:
        problem = build_and_run(compiler, build_folder, mutant, folder, is_whole)
    title = f"{mutant.name}: {mutant.check.replace('-', 'conforms', mutant.check == '-')}"
    return as_comment(problem) + f"{'not ok' if problem else 'ok'} {number} - {title}"


def check_edits(source, mutants):
    """Check that the sources contain the text that each mutant replaces; report missing text."""
    problems = 0
    for mutant in mutants:
        with tempfile.TemporaryDirectory() as folder:
            copy_sources(source, mutant.template, folder)
            problem = mutant.apply(folder)
        if problem:
            print(f"{mutant.name}: {problem}")
            problems += 1
    return problems == 0


def main():
    source, build_folder, *names = sys.argv[1:]
    mutants = []
    for file, template in TEMPLATES.items():
        mutants += read_mutants(os.path.join(source, "tests/conformance", file), template)
    if names == ["--edits"]:
        sys.exit(0 if check_edits(source, mutants) else 1)
    is_sample = names == ["--sample"]
    if is_sample:
        names = [m.name for m in mutants if m.check == "-"] + [m.name for m in mutants if m.check != "-"][::6]
    chosen = [m for m in mutants if not names or m.name in names]
    if not names:
        chosen += [Mutant("without-a-fault", "-", [""], template) for template in TEMPLATES.values()]
    print(f"1..{len(chosen)}")
    # At most four mutants are tested at once, and no more than there are processors.
    with tempfile.TemporaryDirectory() as objects, concurrent.futures.ThreadPoolExecutor(
        min(4, os.cpu_count() or 1)
    ) as pool:
        compiler = Compiler(source, objects)

        def run(n):
            is_whole = not is_sample or chosen[n].check == "-"
            return check(compiler, build_folder, n + 1, chosen[n], is_whole)

        for text in pool.map(run, range(len(chosen))):
            print(text, flush=True)


if __name__ == "__main__":
    main()
