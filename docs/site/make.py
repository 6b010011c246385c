#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""make.py ROOT OUT VERSION [REFERENCE]: converts the pages to HTML with pandoc. Each page has a menu: the list of
pages at the end of the README. REFERENCE is Doxygen's folder html. Each link must lead to a file in OUT. Anchors
(#...) are checked only in links of Backplane's pages: Doxygen's pages link to anchors of unnamed structures that
do not exist."""

import concurrent.futures
import html
import html.parser
import os
import re
import shutil
import subprocess
import sys
import urllib.parse

FOLDERS = ["", "docs", "docs/measurements", "examples/digits", "examples/language-model"]
MAIN_PAGE = "README.md"


def find_pages(root):
    return [os.path.join(folder, name) for folder in FOLDERS for name in sorted(os.listdir(os.path.join(root, folder)))
            if name.endswith(".md")]


def page_name(path):
    return "index.html" if path == MAIN_PAGE else path[:-len(".md")] + ".html"


def read_navigation(root):
    """Return the section Pages of the README: (title of a group, [(text, page)])."""
    with open(os.path.join(root, MAIN_PAGE), encoding="utf-8") as file:
        section = re.search(r"^## Pages\n(.*?)(?=^\w|\Z)", file.read(), re.M | re.S)[1]
    for group in re.split(r"^- ", section, flags=re.M)[1:]:
        yield re.match(r"\*\*(.*?)\*\*", group)[1], re.findall(r"\[([^]]+)\]\(([^)#]+\.md)\)", group)


def write_navigation(groups, page, root_of_page, has_reference):
    lines = []
    for title, links in groups:
        lines.append(f"<h2>{html.escape(title)}</h2>\n<ul>")
        for text, path in links:
            current = ' aria-current="page"' if path == page else ""
            text = text[0].upper() + text[1:]
            lines.append(f'<li><a href="{root_of_page}{page_name(path)}"{current}>{html.escape(text)}</a></li>')
        if has_reference and links == groups[0][1]:
            lines.append(f'<li><a href="{root_of_page}reference/index.html">Reference of the C API</a></li>')
        lines.append("</ul>")
    return "\n".join(lines)


def turn_links(text, pages, folder):
    """Replace links to pages by links to their HTML files."""
    def turn(match):
        target, mark, anchor = match[1].partition("#")
        path = os.path.normpath(os.path.join(folder, target))
        if path not in pages:
            return match[0]
        return f"]({os.path.relpath(page_name(path), folder or '.')}{mark}{anchor})"

    parts = re.split(r"(^```.*?^```$)", text, flags=re.M | re.S)
    return "".join(part if part.startswith("```") else re.sub(r"\]\(([^)\s]+)\)", turn, part) for part in parts)


def make_page(here, root, out, version, page, pages, groups, has_reference):
    with open(os.path.join(root, page), encoding="utf-8") as file:
        text = file.read()
    folder = os.path.dirname(page)
    title = re.search(r"^# (.*)$", text, re.M)[1]
    root_of_page = "../" * page.count("/")
    target = os.path.join(out, page_name(page))
    os.makedirs(os.path.dirname(target), exist_ok=True)
    variables = {"pagetitle": title, "root": root_of_page, "version": version,
                 "navigation": write_navigation(groups, page, root_of_page, has_reference)}
    subprocess.run(["pandoc", "--from", "gfm", "--to", "html5", "--wrap", "none", "--template", os.path.join(here, "page.html"),
                    "--output", target] + [f"--variable={name}:{value}" for name, value in variables.items()],
                   input=turn_links(text, pages, folder), text=True, check=True)


def copy_files(root, out):
    """Copy the pictures and the licence."""
    shutil.copy(os.path.join(root, "LICENSE"), out)
    for folder in ("docs", "docs/pictures"):
        os.makedirs(os.path.join(out, folder), exist_ok=True)
        for name in os.listdir(os.path.join(root, folder)):
            if name.endswith(".svg"):
                shutil.copy(os.path.join(root, folder, name), os.path.join(out, folder, name))


class Links(html.parser.HTMLParser):
    """Collects the links and the anchors of a page."""

    def __init__(self, text):
        super().__init__()
        self.targets, self.places = [], set()
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        for name, value in attrs:
            if name in ("id", "name"):
                self.places.add(value)
            elif name in ("href", "src") and not re.match(r"[a-z]+:", value):
                self.targets.append(value)


def check_links(out, names):
    found = {}
    for name in names:
        with open(os.path.join(out, name), encoding="utf-8") as file:
            found[name] = Links(file.read())
    for name, links in found.items():
        for target in links.targets:
            path, _, anchor = urllib.parse.unquote(target).partition("#")
            path = os.path.normpath(os.path.join(os.path.dirname(name), path)) if path else name
            if not os.path.exists(os.path.join(out, path)):
                yield f"{name}: there is no {path}"
            elif anchor and not name.startswith("reference/") and path in found and anchor not in found[path].places:
                yield f"{name}: {path} has no place #{anchor}"


def main():
    root, out, version = sys.argv[1:4]
    reference = sys.argv[4] if len(sys.argv) > 4 else None
    here = os.path.dirname(os.path.abspath(__file__))
    pages = find_pages(root)
    groups = list(read_navigation(root))
    os.makedirs(out)
    if reference:
        shutil.copytree(reference, os.path.join(out, "reference"), ignore=shutil.ignore_patterns("*.js", "*.map", "*.md5"))
    shutil.copy(os.path.join(here, "style.css"), out)
    copy_files(root, out)
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(lambda page: make_page(here, root, out, version, page, pages, groups, bool(reference)), pages))
    names = [os.path.relpath(os.path.join(folder, name), out)
             for folder, _, files in os.walk(out) for name in files if name.endswith(".html")]
    faults = list(check_links(out, names))
    if faults:
        sys.exit("\n".join(faults))


if __name__ == "__main__":
    main()
