#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Check the contents of the pages: check_pages.py ROOT BUILD prints TAP.

The line with the fence says what a block is. Each block of commands or code is run by a test, or says why none
runs it:

    ```c FILE, ```cpp FILE, ```sh FILE      the block is written to that file
    ```console                  lines that begin with "$ " are commands for one shell, which must succeed; the lines below
                                are what they print, where numbers and the width of columns may differ and a line "..."
                                stands for any lines. All of a page run in one folder with copies of examples/ and sdk/, and
                                the build as _build
    ```console needs NAME       the same, if the build has the plugin or program backplane-NAME
    ```KIND run by TEST         that test runs it; it names the page
    ```KIND not run: REASON     it is not run
    ```text                     neither command nor program
    ```text FILE                a part of FILE, apart from blanks and line breaks
    <!-- Blocks are run by TEST -->         the same for each block of the page whose fence says nothing else

Pages in docs/measurements are records of what was run.

In every page links lead somewhere, commands of the tool and their options, targets of the makefile, files and
headers exist, and
functions that are named with a file are in it. Numbers of the README in bold are in the page of measurements that
is linked next.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import typing

README_LINES = 150
# Folders that paths in pages may begin in, besides the root.
PATH_ROOTS = ["", "tests", "include/backplane", "sdk/template"]
NUMBER = re.compile(r"[-+]?\d+(\.\d+)?(e[-+]?\d+)?")
MARK = "\x1e"


class Block(typing.NamedTuple):
    kind: str  # the first word of the line with the fence
    rest: str
    text: str

    @property
    def file(self):
        """The file that the block is written to, or is a part of."""
        return self.rest if self.rest and " " not in self.rest and self.kind != "console" else None

    @property
    def need(self):
        return self.rest[len("needs "):] if self.rest.startswith("needs ") else None

    @property
    def is_console(self):
        return self.kind == "console" and (not self.rest or self.need is not None)


def blocks(text):
    for match in re.finditer(r"^```([^\n]*)\n(.*?)^```$", text, re.M | re.S):
        kind, _, rest = match[1].partition(" ")
        yield Block(kind, rest, match[2])


def split_session(block):
    """Commands, each with the lines that it prints."""
    session = []
    for line in block.splitlines():
        if line.startswith("$ "):
            session.append((line[2:], []))
        elif session[-1][0].endswith("\\"):
            session[-1] = (session[-1][0] + "\n" + line, [])
        else:
            session[-1][1].append(line)
    return session


def pattern_of(line):
    """Return the pattern of a line: any number matches a number, any blanks match blanks, and "..." alone matches
    any lines."""
    if line.strip() == "...":
        return r"(?:.*\n)*?"
    parts = re.split(r"(\s+)|([-+]?\d+(?:\.\d+)?(?:e[-+]?\d+)?)", line.rstrip())
    found = ""
    for text, blank, number in zip(parts[::3], parts[1::3] + [None], parts[2::3] + [None]):
        found += re.escape(text) + (r"\s+" if blank else "") + (NUMBER.pattern if number else "")
    return found + r"\s*\n"


class Page:
    def __init__(self, root, path):
        self.root, self.path = root, path
        with open(os.path.join(root, path), encoding="utf-8") as file:
            self.text = file.read()

    def prose(self):
        """The text without its blocks."""
        return re.sub(r"^```.*?^```$", "", self.text, flags=re.M | re.S)

    def anchors(self):
        titles = re.findall(r"^#+ (.*)$", self.prose(), re.M)
        return {re.sub(r"[^\w\- ]", "", re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", title)).lower().replace(" ", "-") for title in titles}


# ---- Pages that are executed ----------------------------------------------------------------

def run_session(session, folder, environment):
    """Run the commands in one shell. Return the output of each command, or None for the commands after a failure."""
    script = "".join(f"{command}\nstatus=$?; printf '{MARK}%d{MARK}' $status; [ $status = 0 ] || exit 1\n" for command, _ in session)
    done = subprocess.run(["bash", "-c", script], cwd=folder, env=environment, stdin=subprocess.DEVNULL, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=300, check=False)
    parts = done.stdout.split(MARK)
    outputs = [(parts[i], parts[i + 1]) for i in range(0, len(parts) - 1, 2)]
    return outputs + [(parts[-1], "none")] * (len(session) - len(outputs))


def has_part(build, name):
    return (name != "mpi" or shutil.which("mpirun")) and any(os.path.exists(os.path.join(build, path)) for path in (f"plugins/built/backplane-{name}.so", f"backplane-{name}"))


def execute(page, folder, build, environment):
    session = []
    for block in blocks(page.text):
        if block.is_console and (not block.need or has_part(build, block.need)):
            session += split_session(block.text)
        elif block.file and block.kind != "text":
            session.append((f"cat >{block.file} <<'END_OF_BLOCK'\n{block.text}END_OF_BLOCK", []))
    for (command, expected), (output, status) in zip(session, run_session(session, folder, environment)):
        output += "" if output.endswith("\n") or not output else "\n"
        if status != "0":
            yield f"$ {command}\nended with status {status}:\n{output}"
        elif expected and not re.fullmatch("".join(map(pattern_of, expected)), output):
            yield f"$ {command}\nprints\n{output}and the page says\n" + "\n".join(expected)


def is_sanitized(build):
    """Return whether the build has sanitizers: programs of pages have none, and cannot load its libraries."""
    with open(os.path.join(build, ".libs/libbackplane.so.1"), "rb") as file:
        return re.search(rb"__(?:[at]san_init|ubsan_handle)", file.read()) is not None


def execute_in_copy(root, build, page):
    with tempfile.TemporaryDirectory() as folder:
        for name in ("examples", "sdk"):
            shutil.copytree(os.path.join(root, name), os.path.join(folder, name))
        os.symlink(build, os.path.join(folder, "_build"))
        subprocess.run(["chmod", "-R", "u+w", folder], check=True)
        pkgconfig = os.path.join(folder, "pkgconfig")
        os.mkdir(pkgconfig)
        includes = f"-I{root}/include -I{root}/sdk/include"
        libraries = f"-L{build}/.libs -lbackplane-graph -lbackplane-compiler -lbackplane -Wl,-rpath,{build}/.libs"
        with open(os.path.join(pkgconfig, "backplane-graph.pc"), "w", encoding="utf-8") as file:
            file.write(f"Name: backplane-graph\nDescription: this build's\nVersion: 0\nCflags: {includes}\nLibs: {libraries}\n")
        environment = dict(os.environ, PATH=f"{build}:{os.environ['PATH']}", PKG_CONFIG_PATH=pkgconfig, BACKPLANE_DEVICE="cpu",
                           BACKPLANE_WORKER_PROGRAM=f"{build}/backplane-worker",
                           OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1", OMPI_MCA_rmaps_base_oversubscribe="1")
        yield from execute(page, folder, build, environment)


# ---- All pages ------------------------------------------------------------------------------

def check_links(root, pages):
    anchors = {page.path: page.anchors() for page in pages}
    for page in pages:
        for target in re.findall(r"\]\(([^)\s]+)\)", page.prose()):
            if re.match(r"[a-z]+:", target):
                continue
            path, _, anchor = target.partition("#")
            found = os.path.normpath(os.path.join(os.path.dirname(page.path), path)) if path else page.path
            if not os.path.exists(os.path.join(root, found)):
                yield f"{page.path}: there is no {found}"
            elif anchor and found in anchors and anchor not in anchors[found]:
                yield f"{page.path}: {found} has no section #{anchor}"


def options_of(build, words):
    help_text = subprocess.run([os.path.join(build, "backplane"), *words, "--help"], stdin=subprocess.DEVNULL,
                               capture_output=True, text=True, check=False).stdout
    return set(re.findall(r"--[a-z-]+", help_text)) | set(re.findall(r"^ +(-[a-z]), ", help_text, re.M)) | {"--help"}


def quotations(text):
    """Return every block, indented line and quotation of code."""
    code = [block.text for block in blocks(text)] + re.findall(r"^(?: {4}|\t).*$", text, re.M)
    code += re.findall(r"`([^`]+)`", re.sub(r"^```.*?^```$", "", text, flags=re.M | re.S))
    return [part.replace("\\\n", " ") for part in code]


def command_lines(text):
    """Yield the arguments after the tool's name, of each command line in the text."""
    for part in quotations(text):
        for match in re.finditer(r"(?:^|[\s/(])backplane ((?:[a-z][a-z-]*)\b[^\n#|;&]*)", part):
            yield match[1]


def check_commands(build, pages):
    commands = set(re.findall(r"^  ([a-z][a-z-]+) +\S", subprocess.run(
        [os.path.join(build, "backplane"), "--help"], capture_output=True, text=True, check=True).stdout, re.M))
    known = {}
    for page in pages:
        for line in command_lines(page.text):
            words = line.split()
            if words[0] not in commands:
                if re.search(r" --?[a-z]", line):
                    yield f"{page.path}: there is no command: backplane {line}"
                continue
            key = (words[0], "--conformance") if "--conformance" in words else (words[0],)
            if key not in known:
                known[key] = options_of(build, key)
            for option in re.findall(r"(?:^| )(--[a-z][a-z-]*|-[a-z])(?=[ =]|$)", re.sub(r"\"[^\"]*\"|'[^']*'", "", line)):
                if option not in known[key] and option != "--conformance":
                    yield f"{page.path}: {' '.join(key)} has no option {option}: backplane {line}"


def check_make(build, pages):
    """Check that the makefile has TARGET of each `make TARGET` that stands alone or begins a line."""
    with open(os.path.join(build, "Makefile"), encoding="utf-8") as file:
        rules = re.findall(r"^([^\s:#=][^:#=\n]*):(?!=)", file.read(), re.M)
    targets = {word.replace("$(EXEEXT)", "") for rule in rules for word in rule.split()}
    for page in pages:
        for part in quotations(page.text):
            for target in re.findall(r"(?:^|\n|&& )make((?: [a-z][\w-]*)+)(?=$|\n| &&| PART| TESTS)", part):
                for name in target.split():
                    if name not in targets and not (name.startswith("fuzz-") and "fuzz" in targets):
                        yield f"{page.path}: the makefile has no target {name}"


def check_paths(root, pages):
    """Check that the tree has each file that a page names as `folder/file`."""
    folders = "bench|bridges|compiler|conformance|core|debian|docs|examples|graph|include|packaging|parts|plugins|python|scripts|sdk|tests|tools"
    for page in pages:
        if page.path.startswith("docs/measurements/"):
            continue
        for path in re.findall(rf"`((?:{folders})/[\w./+-]+)`", page.prose()):
            if re.search(r"[A-Z]{4}|\.N|\.\.\.|\.so$|\.log$|plugins/built|debian/build", path):
                continue
            if not any(os.path.exists(os.path.join(root, folder, path + end)) for folder in PATH_ROOTS for end in ("", ".c", ".h", ".in")):
                yield f"{page.path}: there is no {path}"


def check_headers(root, pages):
    """Check that each header that a page names as `backplane/NAME.h` is installed."""
    for page in pages:
        for path in re.findall(r"[`<](backplane/[\w/]+\.h)[`>]", page.text):
            if not any(os.path.exists(os.path.join(root, folder, path)) for folder in ("include", "sdk/include")):
                yield f"{page.path}: there is no header {path}"


def check_functions(root, pages):
    """Check that the file defines the function wherever a page says `function` (`folder/file.c`)."""
    for page in pages:
        for function, path in re.findall(r"`(\w+)(?:\(\))?` \(`([\w.-]+/[\w/.-]+\.[ch])`\)", page.prose()):
            try:
                with open(os.path.join(root, path), encoding="utf-8") as file:
                    found = re.search(rf"^[\w *]*\b{function}\([^;]*?\)\s*\{{", file.read(), re.M | re.S)
            except OSError:
                found = None
            if not found:
                yield f"{page.path}: {path} does not define {function}"


def without_blanks(text):
    return re.sub(r"\s", "", text)


def check_quotations(root, pages):
    """Check that each block ```text FILE is a part of that file."""
    for page in pages:
        for block in blocks(page.text):
            if block.kind != "text" or not block.file:
                continue
            with open(os.path.join(root, block.file), encoding="utf-8") as file:
                if without_blanks(block.text) not in without_blanks(file.read()):
                    yield f"{page.path}: {block.file} does not contain\n{block.text}"


def check_test(root, page, test):
    """Check that a test names the page, if the page says that the test runs its blocks."""
    try:
        with open(os.path.join(root, test), encoding="utf-8") as file:
            if os.path.basename(page.path) in file.read():
                return
        yield f"{page.path}: {test} does not name the page"
    except OSError:
        yield f"{page.path}: there is no {test}"


def check_block(root, page, block, is_run_by_test):
    first = block.text.splitlines()[0] if block.text else ""
    if block.rest.startswith("run by "):
        yield from check_test(root, page, block.rest[len("run by "):])
    elif block.rest.startswith("not run: "):
        if len(block.rest) < len("not run: ") + 5:
            yield f"{page.path}: no reason is given why this is not run: {first}"
    elif block.kind == "text" and not block.file and re.search(r"^(\$|backplane) ", block.text, re.M):
        yield f"{page.path}: a command is in a block of text: {first}"
    elif not (block.is_console or block.file or block.kind == "text" or is_run_by_test):
        yield f"{page.path}: no test runs this block, and it does not say why: {first}"


def check_blocks(root, pages):
    for page in pages:
        if page.path.startswith("docs/measurements/"):
            continue
        tests = re.findall(r"^<!-- Blocks are run by (\S+)", page.text, re.M)
        for test in tests:
            yield from check_test(root, page, test)
        for block in blocks(page.text):
            yield from check_block(root, page, block, bool(tests))
        for line in re.findall(r"^$\n^(?: {4}|\t)(.*)", page.prose(), re.M):
            if not tests:
                yield f"{page.path}: a block without a fence does not say what it is: {line}"


def check_numbers(root, page):
    """Check that the page of measurements that is linked next contains each number in bold."""
    seen = 0
    for item in re.split(r"(?=^- |\n\n)", page.prose(), flags=re.M):
        for before, target in re.findall(r"(.*?)\]\((docs/measurements/[^)#]+)[^)]*\)", item, re.S):
            with open(os.path.join(root, target), encoding="utf-8") as file:
                measured = file.read()
            for number in re.findall(r"\*\*(\d[\d.]*(?: ms)?)\*\*", before):
                seen += 1
                if not re.search(rf"(?<![\d.]){re.escape(number)}(?![\d.]*\d)", measured):
                    yield f"{page.path}: {target} does not have {number}"
    if seen < 4:
        yield f"{page.path}: {seen} numbers are measured, and four facts are promised"


def check_length(page):
    lines = page.text.count("\n")
    if lines > README_LINES:
        yield f"{page.path} has {lines} lines, more than {README_LINES}"


PYTHON_VERSION = r'^__version__ = "([^"]+)"'


def check_versions(root):
    """Check that the files of docs/releasing.md, step 1, have one version."""
    found = {}
    for path, pattern in [("configure.ac", r"AC_INIT\(\[backplane\],\[([^]]+)\]"), ("debian/changelog", r"^backplane \(([^)]+)\)"),
                          ("packaging/backplane.spec", r"^Version: +(\S+)"), ("python/src/backplane/__init__.py", PYTHON_VERSION),
                          ("bridges/onnxruntime/python/src/onnxruntime_ep_backplane/__init__.py", PYTHON_VERSION)]:
        with open(os.path.join(root, path), encoding="utf-8") as file:
            found[path] = re.search(pattern, file.read(), re.M)[1]
    if len(set(found.values())) != 1:
        yield f"the version is {found}"


def check_picture(root):
    path = os.path.join(root, "docs/pictures/overview.svg")
    drawn = subprocess.run([sys.executable, os.path.join(root, "docs/pictures/draw.py")], capture_output=True, text=True, check=True).stdout
    with open(path, encoding="utf-8") as file:
        if file.read() != drawn:
            yield "docs/pictures/overview.svg is not what docs/pictures/draw.py draws; run it"


# ---- TAP ------------------------------------------------------------------------------------

def find_pages(root):
    paths = [name for name in sorted(os.listdir(root)) if name.endswith(".md")]
    for folder in ("docs", "docs/measurements", "docs/reference", "examples/digits", "examples/language-model"):
        paths += [f"{folder}/{name}" for name in sorted(os.listdir(os.path.join(root, folder))) if name.endswith(".md")]
    return [Page(root, path) for path in paths]


def run_python(path, folder):
    """Run the Python blocks of a page as one program, in the folder."""
    program = "".join(block.text for block in blocks(Page("", path).text) if block.kind == "python" and not block.rest.startswith("not run"))
    assert program, f"{path} has no block of Python"
    subprocess.run([sys.executable, "-c", program], cwd=folder, check=True)


def verify_ir(path):
    """Verifies the blocks that begin with "(module"."""
    import backplane  # pylint: disable=import-outside-toplevel

    texts = [block.text for block in blocks(Page("", path).text) if block.text.startswith("(module")]
    assert texts, f"{path} has no module"
    for text in texts:
        backplane.IrModule(text).verify()


def main():
    if sys.argv[1] == "--ir":
        verify_ir(sys.argv[2])
        return
    if sys.argv[1] == "--python":
        run_python(*sys.argv[2:])
        return
    root, build = map(os.path.abspath, sys.argv[1:])
    pages = find_pages(root)
    by_path = {page.path: page for page in pages}
    checks = [("links-lead-somewhere", check_links(root, pages)),
              ("commands-and-options-exist", check_commands(build, pages)),
              ("makefile-has-the-targets", check_make(build, pages)),
              ("files-are-there", check_paths(root, pages)),
              ("headers-are-there", check_headers(root, pages)),
              ("functions-are-where-pages-say", check_functions(root, pages)),
              ("blocks-are-run-or-say-why-not", check_blocks(root, pages)),
              ("blocks-are-quoted-from-files", check_quotations(root, pages)),
              ("figures-are-those-measured", check_numbers(root, by_path["README.md"])),
              ("readme-is-short", check_length(by_path["README.md"])),
              ("version-is-one", check_versions(root)),
              ("picture-is-what-the-script-draws", check_picture(root))]
    if not is_sanitized(build):
        checks += [(f"does-as-it-says/{page.path}", execute_in_copy(root, build, page)) for page in pages
                   if any(block.is_console for block in blocks(page.text))]
    print(f"1..{len(checks)}")
    for number, (name, faults) in enumerate(checks, 1):
        faults = list(faults)
        print(f"{'not ' if faults else ''}ok {number} /docs/{name}")
        for fault in faults:
            print("# " + fault.rstrip().replace("\n", "\n# "))


if __name__ == "__main__":
    main()
