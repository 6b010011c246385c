#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Calls each function of the public headers, and each slot of the host's tables, with NULL for one pointer after the other:
null_arguments.py HEADERS DESCRIPTION LIBRARIES MODEL ALLOWED. Each call is made in a process of its own, with valid objects for
the other arguments. A call may not end the process, and raises an error unless a line "function argument" of ALLOWED fits. A
list of objects is passed as a list of NULL as well."""
import ctypes
import fnmatch
import json
import os
import re
import signal
import sys
from ctypes import c_char_p, c_double, c_int32, c_int64, c_size_t, c_uint8, c_uint16, c_uint32, c_uint64, c_void_p

SCALARS = {"int": c_int32, "int32_t": c_int32, "uint16_t": c_uint16, "uint32_t": c_uint32, "int64_t": c_int64,
           "uint64_t": c_uint64, "size_t": c_size_t, "double": c_double}
CALLBACK = ctypes.CFUNCTYPE(c_void_p)
SECONDS = 20


class BpDevice(ctypes.Structure):
    _fields_ = [("device_type", c_int32), ("device_id", c_int32)]


class BpDataType(ctypes.Structure):
    _fields_ = [("code", c_uint8), ("bits", c_uint8), ("lanes", c_uint16)]


class BpValue(ctypes.Structure):
    _fields_ = [("type_index", c_int32), ("zero", c_int32), ("content", c_int64)]


class BpTensorView(ctypes.Structure):
    _fields_ = [("data", c_void_p), ("device", BpDevice), ("ndim", c_int32), ("dtype", BpDataType), ("shape", c_void_p),
                ("strides", c_void_p), ("byte_offset", c_uint64)]


# Names of arguments that are the path of a library, or a list of devices.
LIBRARY_PATHS, DEVICE_TEXTS = {"path", "library_path"}, {"preferences"}
VALUES = {"BpDevice": BpDevice(1, 0), "BpDataType": BpDataType(0, 32, 1)}
FLOAT = BpDataType(2, 32, 1)


def split(text):
    """The parameters of a declaration; a comma within parentheses belongs to a pointer to a function."""
    parts, depth = [""], 0
    for character in text:
        depth += {"(": 1, ")": -1}.get(character, 0)
        if character == "," and not depth:
            parts.append("")
        else:
            parts[-1] += character
    return [part.strip() for part in parts]


def parameter(text):
    """(type, name) of a parameter."""
    pointer = re.match(r".*?\(\*(\w+)\)", text)
    if pointer:
        return "callback", pointer.group(1)
    words = re.match(r"(.*?)(\w+)$", text)
    return re.sub(r"\b(const|struct)\b|\s+", "", words.group(1)), words.group(2)


def functions(headers):
    """(name, returned type, parameters) of each exported function."""
    found = []
    for folder in headers.split(":"):
        for path, _, names in sorted(os.walk(folder)):
            for name in sorted(names):
                text = open(os.path.join(path, name), encoding="utf-8").read() if name.endswith(".h") else ""
                text = re.sub(r"/\*.*?\*/", "", text, flags=re.S)
                for returned, function, rest in re.findall(r"BP_API\s+([^;(]*?)(\w+)\(([^;]*)\)[^;)]*;", text, flags=re.S):
                    rest = " ".join(rest.split()).split(") BP_PRINTF")[0]
                    given = [] if rest == "void" else [parameter(p) for p in split(rest) if p != "..."]
                    if function != "bp_conformance_main":  # of a library of its own
                        found.append((function, re.sub(r"\bconst\b|\s+", "", returned), given))
    return found


def slots(description):
    """(table, version, slot, offset, returned type, parameters) of each slot of the host's tables."""
    described = json.load(open(description, encoding="utf-8"))
    constants = {c["name"]: c["value"] for c in described["constants"]}
    types = {t["name"]: t for t in described["types"]}
    tables = {"error": "BpErrorTable", "object": "BpObjectTable", "registry": "BpRegistryTable", "module": "BpModuleTable",
              "target": "BpTargetTable", "runtime": "BpRuntimeTable", "ir": "BpIrTable", "emitter": "BpEmitterTable"}
    found = []
    for name, kind in tables.items():
        version = constants["BP_TABLE_%s_VERSION" % name.upper()]
        for member in types[kind]["members"]:
            if "function" in member:
                function = member["function"]
                given = [("callback" if "function" in p else re.sub(r"\bconst\b|\s+", "", p["type"]), p["name"])
                         for p in function["parameters"]]
                returned = re.sub(r"\bconst\b|\s+", "", function["returns"])
                found.append((name, version, member["name"], member["offset"], returned, given))
    return found


class Maker:
    """Makes valid arguments."""

    def __init__(self, libraries, model):
        self.model, self.made, self.kept = model, {}, []
        self.libraries = [ctypes.CDLL(path, mode=ctypes.RTLD_GLOBAL) for path in libraries]
        self.callback = CALLBACK(lambda: 0)
        self.shape = (c_int64 * 2)(2, 2)

    def function(self, name):
        for library in self.libraries:
            if hasattr(library, name):
                return library[name]
        return None

    def call(self, name, *arguments, returned=c_void_p):
        function = self.function(name)
        function.restype = returned
        result = function(*arguments)
        if returned is c_void_p:
            if not result:
                message = self.function("bp_error_message")
                message.restype = c_char_p
                raise RuntimeError("%s: %s" % (name, message().decode()))
            return c_void_p(result)
        return result

    def buffer(self, size=4096):
        memory = ctypes.create_string_buffer(size)
        self.kept.append(memory)
        return memory

    def of(self, kind, name=""):
        """An argument of a type."""
        if kind == "char*" and name in LIBRARY_PATHS:
            return self.model
        if kind == "char*" and name in DEVICE_TEXTS:
            return b"cpu"
        if kind in VALUES:
            return VALUES[kind]
        if kind in SCALARS:
            return SCALARS[kind](1)
        if kind not in self.made:
            make = getattr(self, "make_" + kind.rstrip("*"), None) if kind.count("*") == 1 else None
            self.made[kind] = make() if make else self.other(kind)
        return self.made[kind]

    def other(self, kind):
        if kind == "char*":
            return ctypes.create_string_buffer(b"x", 4096)
        if "*" not in kind:
            return self.callback
        if kind.endswith("**") and hasattr(self, "make_" + kind[:-2]):
            item = self.of(kind[:-1])
            return (c_void_p * 64)(*[item if isinstance(item, c_void_p) else ctypes.addressof(item)] * 64)
        return self.buffer()

    def make_BpIrModule(self):
        return self.call("bp_ir_module_create")

    def make_BpIrNode(self):
        return self.call("bp_ir_int", self.of("BpIrModule*"), BpDataType(0, 32, 1), c_int64(1))

    def make_BpIrBlock(self):
        return self.call("bp_ir_block_begin", self.of("BpIrModule*"))

    def make_BpTe(self):
        return self.call("bp_te_create")

    def make_BpTeTensor(self):
        node = self.call("bp_ir_float", self.call("bp_te_ir", self.of("BpTe*")), FLOAT, c_double(1))
        self.body = CALLBACK(lambda: node.value)
        return self.call("bp_te_compute", self.of("BpTe*"), b"x", self.shape, c_int32(2), self.body, None)

    def make_BpTeStage(self):
        return self.call("bp_te_stage", self.of("BpTe*"), self.of("BpTeTensor*"))

    def make_BpTeAxis(self):
        return self.call("bp_te_stage_axis", self.of("BpTeStage*"), c_int32(0))

    def make_BpTeScan(self):
        return self.call("bp_te_scan_begin", self.of("BpTe*"), b"x", self.shape, c_int32(2), c_int32(0), c_int32(0))

    def make_BpTarget(self):
        return self.call("bp_target_parse", b"c")

    def make_BpModule(self):
        return self.call("bp_model_open", self.model)

    def make_BpModel(self):
        return self.call("bp_model_create", self.of("BpModule*"), ctypes.byref(VALUES["BpDevice"]), c_size_t(1))

    def make_BpModelContext(self):
        return self.call("bp_model_context_create", self.of("BpModel*"))

    def make_BpTensor(self):
        return self.call("bp_tensor_create", self.shape, c_int32(2), FLOAT, VALUES["BpDevice"], None)

    def make_BpTensorView(self):
        return BpTensorView(ctypes.addressof(self.buffer()), BpDevice(1, 0), 2, FLOAT, ctypes.addressof(self.shape), None, 0)

    def make_BpManagedTensor(self):
        return self.call("bp_tensor_to_dlpack", self.of("BpTensor*"))

    def make_BpManagedTensorVersioned(self):
        return self.call("bp_tensor_to_dlpack_versioned", self.of("BpTensor*"))

    def make_BpFunction(self):
        return self.call("bp_function_create", self.callback, None, None)

    def make_BpShape(self):
        return self.call("bp_shape_create", self.shape, c_size_t(2))

    def make_BpError(self):
        self.call("bp_error_raise", b"ValueError", b"x", returned=c_int32)
        return self.call("bp_error_take")

    def make_BpEvent(self):
        return self.call("bp_event_create", VALUES["BpDevice"])

    def make_BpTransfer(self):
        return self.call("bp_transfer_create", VALUES["BpDevice"], VALUES["BpDevice"], c_uint64(16))

    def make_BpPluginList(self):
        return self.call("bp_plugin_list")

    def make_BpPluginDiagnosis(self):
        return self.call("bp_plugin_diagnose")

    def make_BpDevice(self):
        return (BpDevice * 8)(BpDevice(1, 0))

    def make_BpByteArray(self):
        return (c_uint64 * 2)(ctypes.addressof(self.buffer()), 16)

    def table(self, name, version):
        """A table of the host, as a plugin fetches it."""
        found = []

        @ctypes.CFUNCTYPE(c_void_p, c_void_p)
        def entry(host):
            get = ctypes.cast(ctypes.cast(host, ctypes.POINTER(c_void_p))[2],
                              ctypes.CFUNCTYPE(c_void_p, c_void_p, c_char_p, c_uint32))
            found.append(get(host, name.encode(), version))
            return 0

        self.kept.append(entry)
        text = (b"abi=1.0\nname=nulls\nversion=1\nlicense=MIT\ndescription=x\nentry=bp_plugin_entry_nulls\n"
                b"provides=nulls.function\n")
        self.call("bp_ir_module_create")
        self.call("bp_plugin_register_static", text, entry, returned=c_int32)
        self.call("bp_plugin_activate", b"nulls", returned=c_int32)
        self.call("bp_error_clear", returned=None)
        if not found or not found[0]:
            raise RuntimeError("the host has no table %s" % name)
        return found[0]


def ask(make, given, at, null):
    """The kind and the text of the error, after a call with `null` for argument `at`, in this process."""
    maker, call = make()
    arguments = [null if i == at else maker.of(kind, name) for i, (kind, name) in enumerate(given)]
    maker.call("bp_error_clear", returned=None)
    call(*arguments)
    answers = []
    for part in ("bp_error_kind", "bp_error_message"):
        answers.append(maker.call(part, returned=c_char_p).decode())
    return answers


def in_process(action):
    """(signal, kind, message) of an action in a process of its own."""
    read, write = os.pipe()
    child = os.fork()
    if not child:
        os.close(read)
        os.dup2(os.open(os.devnull, os.O_RDWR), 1)
        os.dup2(1, 2)
        signal.alarm(SECONDS)
        try:
            answer = action()
        except Exception as error:  # pylint: disable=broad-except
            answer = ["test", repr(error)]
        os.write(write, json.dumps(answer).encode())
        os._exit(0)
    os.close(write)
    answer = b""
    while True:
        part = os.read(read, 65536)
        if not part:
            break
        answer += part
    os.close(read)
    status = os.waitpid(child, 0)[1]
    kind, message = json.loads(answer) if answer else ("", "")
    return (os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0 if answer else -1), kind, message


RETURNED = {"void": None, "BpDataType": BpDataType}


def returned_type(name):
    return RETURNED[name] if name in RETURNED else SCALARS.get(name, c_void_p)


def main():
    headers, description, libraries, model, allowed_file = sys.argv[1:]
    libraries, model = libraries.split(":"), model.encode()
    allowed = {tuple(line.split()) for line in open(allowed_file, encoding="utf-8") if line.strip() and line[0] != "#"}
    cases = []

    def of_function(function, returned):
        def make():
            maker = Maker(libraries, model)
            call = maker.function(function)
            call.restype = returned_type(returned)
            return maker, call
        return make

    def of_slot(table, version, offset, returned, given):
        def make():
            maker = Maker(libraries, model)
            kinds = [VALUES[k].__class__ if k in VALUES else SCALARS.get(k, c_void_p) for k, _ in given]
            address = ctypes.cast(maker.table(table, version) + offset, ctypes.POINTER(c_void_p))[0]
            return maker, ctypes.CFUNCTYPE(returned_type(returned), *kinds)(address)
        return make

    for name, returned, given in functions(headers):
        cases.append((name, given, of_function(name, returned)))
    for table, version, slot, offset, returned, given in slots(description):
        cases.append(("%s.%s" % (table, slot), given, of_slot(table, version, offset, returned, given)))
    faults, calls, unused = [], 0, set(allowed)
    for name, given, make in cases:
        for at, (kind, argument) in enumerate(given):
            if kind in VALUES or kind in SCALARS:
                continue
            fits = [line for line in allowed if fnmatch.fnmatchcase(name, line[0]) and fnmatch.fnmatchcase(argument, line[1])]
            unused.difference_update(fits)
            nulls = [None] + ([(c_void_p * 64)()] if kind.endswith("**") and "_free" not in name else [])
            for null in nulls:
                calls += 1
                ended, error, message = in_process(lambda make=make, given=given, at=at, null=null: ask(make, given, at, null))
                if ended or error == "test":
                    faults.append("%s %s: %s" % (name, argument, "signal %d" % ended if ended > 0 else message or "exits"))
                elif not error and null is None and not fits:
                    faults.append("%s %s: no error" % (name, argument))
    print("%d calls of %d functions" % (calls, len(cases)))
    for fault in faults:
        print(fault)
    for line in sorted(unused):
        print("%s %s: unused line" % line)
    return 1 if faults or unused or calls < 500 else 0


if __name__ == "__main__":
    sys.exit(main())
