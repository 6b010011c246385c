# SPDX-License-Identifier: Apache-2.0
"""Load libraries that Backplane exported with Python's tvm_ffi. Arguments: the paths of
two libraries."""

import sys

import tvm_ffi

host, importing = sys.argv[1:]
checks = []


def check(name, holds):
    checks.append(bool(holds))
    print(f"{'ok' if holds else 'not ok'} {len(checks)} /tvm-ffi/{name}")


print("1..5")
module = tvm_ffi.load_module(host)
check("calls-a-function-of-ours", module["add"](40, 2) == 42)
try:
    module["fail"]()
    check("error-of-ours-is-raised", False)
except Exception as error:  # pylint: disable=broad-except
    check("error-of-ours-is-raised", "it is odd" in str(error))

seen = {}


def loader(kind):
    def load(data):
        seen[kind] = len(data)
        return module

    return load


for kind in ("test_dev", "test_other"):
    tvm_ffi.register_global_func(f"ffi.Module.load_from_bytes.{kind}", loader(kind))
tree = tvm_ffi.load_module(importing)
check("reads-the-blob", seen == {"test_dev": 100003, "test_other": 5})
check("builds-the-import-tree", len(tree.imports) == 2)
check("fills-the-slots", tree["call_size"]() == 77)
