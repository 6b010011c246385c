# SPDX-License-Identifier: Apache-2.0
"""Use Backplane and Python's tvm_ffi in one process: neither disturbs the other. Arguments: the
path of libbackplane; the path of a library that TVM compiled from C, whose code calls all
host functions by name; and which library is loaded first: "ours" or "theirs"."""

import ctypes
import sys

checks = []


def check(name, holds):
    checks.append(bool(holds))
    print(f"{'ok' if holds else 'not ok'} {len(checks)} /coexist/{sys.argv[3]}-first/{name}")


class Ours:
    """The part of the C API that calls a function with two integers."""

    def __init__(self, path):
        self.lib = ctypes.CDLL(path)
        self.lib.bp_module_load.restype = ctypes.c_void_p
        self.lib.bp_module_load.argtypes = [ctypes.c_char_p]
        self.lib.bp_module_get_function.argtypes = [
            ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int, ctypes.POINTER(ctypes.c_void_p)]
        self.lib.bp_function_call.argtypes = [
            ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int32, ctypes.c_void_p]
        self.lib.bp_error_kind.restype = ctypes.c_char_p
        self.lib.bp_error_message.restype = ctypes.c_char_p

    def load(self, path):
        module = self.lib.bp_module_load(path.encode())
        assert module, self.lib.bp_error_message()
        return module

    def call(self, module, name, *numbers):
        function = ctypes.c_void_p()
        assert self.lib.bp_module_get_function(module, name.encode(), 1, function) == 0
        args = (ctypes.c_int64 * (2 * len(numbers)))()
        for index, number in enumerate(numbers):
            args[2 * index], args[2 * index + 1] = 1, number
        result = (ctypes.c_int64 * 2)()
        if self.lib.bp_function_call(function, args, len(numbers), result):
            return self.lib.bp_error_kind().decode(), self.lib.bp_error_message().decode()
        return result[1]


def use_ours(ours, path):
    module = ours.load(path)
    check("ours/calls", ours.call(module, "half", 84) == 0)
    kind, message = ours.call(module, "half")
    check("ours/error-is-ours", kind == "TypeError" and message.startswith("Expected 1 arguments"))
    kind, message = ours.call(module, "half", 1)
    check("ours/look-up-is-ours", kind == "KeyError" and "neither in its imports" in message)


def use_theirs(path):
    import tvm_ffi  # pylint: disable=import-outside-toplevel

    module = tvm_ffi.load_module(path)
    check("theirs/calls", module["half"](84) is None)
    try:
        module["half"]()
        check("theirs/error-is-theirs", False)
    except TypeError as error:
        check("theirs/error-is-theirs", str(error).startswith("Expected 1 arguments"))
    try:
        module["half"](1)
        check("theirs/look-up-is-theirs", False)
    except Exception as error:  # pylint: disable=broad-except
        check("theirs/look-up-is-theirs", "neither in its imports" not in str(error))


def main():
    _, library, path, first = sys.argv
    if first == "ours":
        ours = Ours(library)
        use_ours(ours, path)
        use_theirs(path)
    else:
        use_theirs(path)
        ours = Ours(library)
    use_ours(ours, path)
    use_theirs(path)
    print(f"1..{len(checks)}")


if __name__ == "__main__":
    main()
