# SPDX-License-Identifier: Apache-2.0
"""Functions: values in both directions, errors, threads."""

import ctypes
import gc
import os
import pathlib
import shutil
import subprocess
import sys
import threading
import time
import types
import weakref

import numpy as np
import pytest

import backplane
from backplane import errors

VALUES = [None, True, False, 0, -5, 2**62, 1.5, "", "short", "a longer text, ünïcode", b"", b"bytes",
          b"more than seven bytes", (1, 2, 3), (), backplane.Device(1, 0)]


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_values_come_back(global_func, value):
    echo = global_func("test.echo", lambda x: x)
    result = echo(value)
    assert result == value and type(result) is type(value)


def test_lists_come_back(global_func):
    echo = global_func("test.echo", lambda x: x)
    assert echo([1.5, "text", None, (1, 2)]) == [1.5, "text", None, (1, 2)]


def test_many_arguments(global_func):
    assert global_func("test.sum", lambda *args: sum(args))(*range(100)) == 4950


def test_functions_are_values(global_func):
    apply = global_func("test.apply", lambda f, x: f(x))
    assert apply(lambda x: x + 1, 41) == 42
    double = backplane.Function(lambda x: 2 * x)
    assert apply(double, 21) == 42


def test_too_large_number_is_an_error(global_func):
    with pytest.raises(OverflowError):
        global_func("test.echo", lambda x: x)(2**64)


def test_unknown_object_is_an_error(global_func):
    with pytest.raises(TypeError, match="cannot be passed"):
        global_func("test.echo", lambda x: x)(object())


def test_numbers_of_numpy_are_numbers(global_func):
    echo = global_func("test.echo", lambda x: x)
    for number in (np.float32(1.5), np.int8(-3), np.uint64(7), np.bool_(True), np.float16(0.5)):
        result = echo(number)
        assert result == number and type(result) is type(number.item())
    assert echo([np.float32(1.5), "x"]) == [1.5, "x"]
    for other in (np.complex64(1j), np.datetime64("2020-01-01"), np.longdouble(1)):
        with pytest.raises(TypeError, match="cannot be passed"):
            echo(other)


def test_lists_keep_what_is_in_them(global_func):
    array = np.arange(3.0)
    tensor, data, nested = global_func("test.echo", lambda x: x)([array, b"bytes", [array]])
    assert np.shares_memory(tensor.numpy(), array) and np.shares_memory(nested[0].numpy(), array)
    assert data == b"bytes"


def test_list_in_itself_is_an_error(global_func):
    echo = global_func("test.echo", lambda x: x)
    endless, deep = [], []
    endless.append(endless)
    for _ in range(100000):
        deep = [deep]
    for value in (endless, deep):
        with pytest.raises(RecursionError):
            echo(value)


def test_another_byte_order_is_an_error(global_func):
    array = np.zeros(3, np.dtype("int32").newbyteorder())
    with pytest.raises(TypeError, match="byte order"):
        global_func("test.echo", lambda x: x)(array)


def test_a_function_is_registered_by_a_name():
    with pytest.raises(TypeError, match="registered by a name"):
        backplane.register_func(lambda: None)
    with pytest.raises(TypeError, match="not of 3"):
        backplane.register_func("test.three", 3)


INSIDE = """
try:
    import backplane
    print("imported")
except ImportError as error:
    print(error)
"""
OUTSIDE = """
import sys
try:
    import _interpreters as interpreters
except ImportError:
    import _xxsubinterpreters as interpreters
interpreters.run_string(interpreters.create(), sys.argv[1])
import backplane
interpreters.run_string(interpreters.create(), sys.argv[1])
"""


def test_subinterpreters_are_refused():
    result = subprocess.run([sys.executable, "-c", OUTSIDE, INSIDE], capture_output=True, text=True,
                            check=True)
    assert len(result.stdout.splitlines()) == 2 and "imported" not in result.stdout
    assert result.stdout.count("subinterpreter") == 2


@pytest.mark.parametrize("cause", ["libbackplane-graph.so.1: cannot open", "undefined symbol: bp_x"])
def test_import_without_the_library_says_what_to_do(tmp_path, cause):
    package = tmp_path / "backplane"
    package.mkdir()
    for path in pathlib.Path(backplane.__file__).parent.glob("*.py"):
        shutil.copy(path, package)
    (package / "_core.py").write_text(f"raise ImportError({cause!r})")
    result = subprocess.run([sys.executable, "-c", "import backplane"], capture_output=True, text=True,
                            env={**os.environ, "PYTHONPATH": str(tmp_path)}, check=False)
    last = result.stderr.splitlines()[-1]
    assert last.startswith(f"ImportError: {cause}") and "LD_LIBRARY_PATH" in last


@pytest.mark.parametrize("program", ["false", None])
def test_building_without_the_library_says_what_to_do(tmp_path, program):
    if program:
        (tmp_path / "pkg-config").symlink_to(shutil.which(program))
    env = {name: value for name, value in os.environ.items() if not name.startswith("BACKPLANE_")}
    result = subprocess.run([sys.executable, pathlib.Path(__file__).parents[1] / "setup.py", "--name"],
                            env={**env, "PATH": str(tmp_path)}, capture_output=True, text=True,
                            check=False)
    assert result.returncode == 1 and "PKG_CONFIG_PATH" in result.stderr
    assert "Traceback" not in result.stderr


def test_keywords_are_an_error(global_func):
    with pytest.raises(TypeError, match="keyword"):
        global_func("test.echo", lambda x: x)(x=1)


class Odd(Exception):
    """An exception that the library does not know."""


def test_exception_of_a_callback_comes_out_unchanged(global_func):
    original = Odd("it is odd")

    def fail():
        raise original

    with pytest.raises(Odd) as caught:
        global_func("test.fail", fail)()
    assert caught.value is original
    assert any(entry.name == "fail" for entry in caught.traceback)


def test_result_that_nothing_can_hold_is_an_error(global_func):
    with pytest.raises(TypeError):
        global_func("test.bad", object)()


def test_names(global_func):
    global_func("test.names.one", lambda: 1)
    assert "test.names.one" in backplane.list_global_func_names()
    with pytest.raises(errors.InvalidValueError):
        backplane.register_func("test.names.one", lambda: 2)
    backplane.register_func("test.names.one", lambda: 2, override=True)
    assert backplane.get_global_func("test.names.one")() == 2
    assert backplane.get_global_func("test.no.such", allow_missing=True) is None
    with pytest.raises(errors.NotFoundError, match="test.no.such"):
        backplane.get_global_func("test.no.such")
    with pytest.raises(LookupError):
        backplane.remove_global_func("test.no.such")


def test_decorator_and_init_api():
    @backplane.register_func("test.api.triple")
    def triple(x):
        return 3 * x

    module = types.ModuleType("api")
    backplane._init_api("test.api", module)
    assert module.triple(14) == 42 and triple(1) == 3
    backplane.remove_global_func("test.api.triple")


def test_errors_have_kinds(tmp_path):
    with pytest.raises(errors.BackplaneError) as caught:
        backplane.load("/no/such/file.so")
    assert caught.value.kind == "OSError" and isinstance(caught.value, OSError)
    (tmp_path / "plain").touch()
    with pytest.raises(errors.InvalidValueError, match="extension"):
        backplane.load(tmp_path / "plain")


def test_lock_is_let_go(global_func):
    """Two threads that sleep in the library sleep at the same time."""
    sleep = global_func("test.sleep", lambda: time.sleep(0.2))
    barrier = threading.Barrier(2)
    meet = global_func("test.meet", lambda: barrier.wait(timeout=30) >= 0)
    results = []
    threads = [threading.Thread(target=lambda: results.append(meet())) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [True, True]
    sleep()


def test_nothing_is_leaked(global_func):
    marker = object()
    before = sys.getrefcount(marker)

    def make():
        function = backplane.Function(lambda keep=marker: None)
        function()
        return function

    for _ in range(10):
        make()
    gc.collect()
    assert sys.getrefcount(marker) == before
    array = np.zeros(4, "float32")
    echo = global_func("test.count", lambda x: None)
    count = sys.getrefcount(array)
    for _ in range(10):
        echo(array)
    assert sys.getrefcount(array) == count


class Owner:
    """An object that a callable refers to, and that refers to the callable's own function."""

    def __init__(self):
        self.function = backplane.Function(lambda: self)


def test_a_function_that_refers_to_itself_is_collected(global_func):
    alone = weakref.ref(Owner())
    registered = Owner()
    backplane.register_func("test.owner", registered.function)
    registered = weakref.ref(registered)
    passed = Owner()
    kept = global_func("test.echo_function", lambda function: function)(passed.function)
    passed = weakref.ref(passed)
    gc.collect()
    assert alone() is None, "nobody has it"
    assert registered() is not None and passed() is not None, "the library has it"
    backplane.remove_global_func("test.owner")
    del kept
    gc.collect()
    assert registered() is None and passed() is None


def test_what_is_called_meanwhile_is_not_collected(global_func):
    apply = global_func("test.apply_collected", lambda f: (gc.collect(), f(1))[1])

    def twice(x):
        return 2 * x

    assert apply(twice) == 2 and apply(backplane.Function(lambda x: twice(x))) == 2


def test_array_is_lent_to_a_callback(global_func):
    kept = []

    def fill(x):
        x.numpy()[...] = 7
        kept.append(x)

    array = np.zeros((2, 3), "float32")
    global_func("test.fill", fill)(array)
    assert (array == 7).all()
    assert kept[0].shape == (0, 0)


def test_an_array_of_ctypes_is_an_array(global_func):
    def double(x):
        x.numpy()[...] *= 2

    rows = (ctypes.c_float * 3 * 2)((1, 2, 3), (4, 5, 6))
    global_func("test.double", double)(rows)
    assert [list(row) for row in rows] == [[2, 4, 6], [8, 10, 12]]


def test_read_only_array_is_an_error(global_func):
    array = np.zeros(4)
    array.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        global_func("test.echo", lambda x: None)(array)


def test_read_only_tensor_is_an_error(global_func, tmp_path):
    if int(np.__version__.split(".")[0]) < 2:
        pytest.skip("numpy before 2 exports no read-only memory")
    np.zeros((4, 2), "float32").tofile(tmp_path / "data")
    mapped = np.memmap(tmp_path / "data", "float32", "r", shape=(4, 2))
    tensor, nothing = backplane.from_dlpack(mapped), global_func("test.nothing", lambda *x: None)
    program = backplane.te.Program()
    a = program.placeholder("a", (4, 2))
    double = program.build(
        "double", [a, program.compute("b", (4, 2), lambda i, j: a[i, j] * 2)], "c")
    for value in (tensor, tensor.reshape(4, 2), Exchanged(tensor)):
        for call in (nothing, lambda x: nothing([x]), lambda x: double(np.ones((4, 2), "float32"), x)):
            with pytest.raises(ValueError, match="read-only; functions may write"):
                call(value)
    nothing(backplane.tensor(mapped))


class Exchanged:
    """A tensor that has only the exchange method."""

    def __init__(self, tensor):
        self.__dlpack__ = tensor.__dlpack__


def test_a_callback_may_raise_the_errors_of_the_library(global_func):
    failure = backplane.errors.NotFoundError("no such thing")

    def fail():
        raise failure

    with pytest.raises(LookupError) as caught:
        global_func("test.fail_as_the_library", fail)()
    assert caught.value is failure and failure.kind == "KeyError"
