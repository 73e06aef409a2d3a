#!/usr/bin/env python3
"""load_test on a GPU, also where its memory suffices for few of the runs."""
import contextlib
import subprocess
import sys
import unittest

import cli_test
from cli_test import NO_MEMORY, OK, OLD_OUTPUT
from fault_test import NeedsGpu
from load_test import AT_ONCE, Crowd, Load

setUpModule = cli_test.setUpModule


# Takes the GPU's memory except for a given amount, says so and waits until its standard input ends.
TAKE_MEMORY = """
import ctypes, sys
cuda = ctypes.CDLL("libcuda.so.1")
def call(name, *arguments):
    status = getattr(cuda, name)(*arguments)
    if status != 0:
        sys.exit(f"{name}: error {status}")
device, context, memory = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_uint64()
free, total = ctypes.c_size_t(), ctypes.c_size_t()
call("cuInit", 0)
call("cuDeviceGet", ctypes.byref(device), 0)
call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
call("cuCtxSetCurrent", context)
call("cuMemGetInfo_v2", ctypes.byref(free), ctypes.byref(total))
call("cuMemAlloc_v2", ctypes.byref(memory), ctypes.c_size_t(free.value - int(sys.argv[1])))
print("taken", flush=True)
sys.stdin.read()
"""


class GpuLoadTest(NeedsGpu, Load, cli_test.CliTest):
    device = "gpu"

    @contextlib.contextmanager
    def little_memory(self, left):
        process = subprocess.Popen([sys.executable, "-c", TAKE_MEMORY, str(left)], stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(process.kill)
        if process.stdout.readline() != "taken\n":
            self.fail(f"the GPU's memory cannot be taken: {process.stderr.read()}")
        try:
            yield
        finally:
            process.communicate()

    def test_little_memory(self):
        """From memory for a few contexts, each about half a gigabyte, to memory for all."""
        codes = set()
        for gigabytes in (1, 4, 16):
            with self.subTest(gigabytes=gigabytes), self.little_memory(gigabytes << 30):
                crowd = Crowd(self)
                for member in range(AT_ONCE):
                    output = self.dir / f"{member}.out"
                    output.write_bytes(OLD_OUTPUT)
                    crowd.start(self.case_of(member), output)
                found = crowd.wait()
                codes.update(found)
                for member, code in enumerate(found):
                    if code != OK:
                        self.assertEqual((self.dir / f"{member}.out").read_bytes(), OLD_OUTPUT)
                self.assertEqual(self.temporaries(), [])
        self.assertIn(OK, codes)
        self.assertIn(NO_MEMORY, codes)


if __name__ == "__main__":
    unittest.main(verbosity=2)
