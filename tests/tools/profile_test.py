#!/usr/bin/env python3
"""profile/profile without a GPU: output that ncu wrote on an H200 (tests/tools/ncu), and whole runs with a fake ncu that
prints it again."""
import json
import os
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SAMPLES = str(ROOT / "tests/tools/ncu")
sys.path[:0] = [str(ROOT / "profile")]

import gpu_peaks  # noqa: E402 (the path to them is set above)
import metrics  # noqa: E402
import ncu_csv  # noqa: E402
from program_module import run_forked  # noqa: E402

KEYS = [metric.key for metric in metrics.METRICS]

KERNELS = ("plain_rows", "shared_tiles", "async_tiles", "drawn_tiles")  # of the sample t28

# A row of hw4 bench, from a line of a sample.
CELL = """
def CELL(launch):
    sizes = {"batch_size": launch["batches"], "seq_len": launch["tokens"], "emb_dim": launch["dim"]}
    return {"hw4": {"parameters": sizes, "reason": None, "forward": {"kernel": launch["kernel"], "samples": [1]}}}
"""


def sample(name):
    with open(os.path.join(SAMPLES, name), encoding="utf-8") as file:
        return file.read()


class Metrics(unittest.TestCase):
    def test_every_value_of_a_launch(self):
        """The values of drawn_tiles on t28, calculated by hand from the sample's columns."""
        rows = ncu_csv.parse(sample("t28.csv"))
        values = metrics.metric_values(rows[KERNELS.index("drawn_tiles")].number)
        expected = {
            "duration_seconds": 0.005782976, "achieved_occupancy_pct": 12.50, "theoretical_occupancy_pct": 12.50,
            "sm_efficiency_pct": 99.47, "shared_load_bytes_per_second": 128 * 545777436 / 0.005782976,
            "shared_store_bytes_per_second": 128 * 37850167 / 0.005782976, "shared_load_wavefronts": 545777436,
            "shared_load_instructions": 288448640, "shared_load_conflicts": 77404, "shared_store_conflicts": 13519,
            "global_load_bytes_per_second": 4491473312 / 0.005782976,
            "global_store_bytes_per_second": 93388800 / 0.005782976,
            "dram_read_bytes_per_second": 104301312 / 0.005782976,
            "dram_write_bytes_per_second": 31912448 / 0.005782976, "dram_bytes": 136213760, "l2_bytes": 3532811040,
            "warp_execution_efficiency_pct": 100.0, "issue_slots_busy_pct": 85.73, "fma_pipe_pct": 77.85,
            "fma_share_pct": 100 * 4671522144 / 5143983899, "ipc": 3.43, "instructions": 5143983899,
            "flop": 294217973760, "registers": 255, "shared_bytes_per_block": 108144, "block_threads": 128,
            "grid_blocks": 264, "waves": 1, "bytes_per_sector_load_pct": 99.75, "local_load_instructions": 0}
        self.assertEqual(list(expected), KEYS)  # the report uses these names
        for key, value in expected.items():
            self.assertAlmostEqual(values[key], value, msg=key, delta=1e-9 * abs(value))


class Runs(unittest.TestCase):
    """The whole program, with an ncu that prints the samples."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="profile_test-")
        self.addCleanup(folder.cleanup)
        self.dir = Path(folder.name)
        self.json = self.dir / "out.json"
        lines = sample("t28.jsonl").splitlines()
        self.program("ncu", "import json\nif sys.argv[1:] == ['--version']:\n    sys.exit(print('Version 2025.1'))\n"
                            f"open(sys.argv[sys.argv.index('--log-file') + 1], 'w').write({sample('t28.csv')!r})\n"
                            "open(CALLS, 'a').write(json.dumps(sys.argv[1:]) + '\\n')\n"
                            f"cells = [CELL(json.loads(line)) for line in {lines!r}]\n"
                            "path = sys.argv[sys.argv.index('--output') + 1]\n"
                            "open(path, 'w').write(json.dumps({'results': cells}))")
        self.program("hw4", "")

    def program(self, name, body):
        path = self.dir / name
        path.write_text(f"#!{sys.executable} -IS\nimport sys\nCALLS = {str(self.dir / 'calls')!r}\n"
                        f"{CELL}\n{body}\n")
        path.chmod(0o755)

    def test_every_kernel(self):
        environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "HW4_PROC": str(self.dir / "proc"),
                       "PATH": f"{self.dir}{os.pathsep}{os.environ['PATH']}"}
        done = run_forked([sys.executable, ROOT / "profile/profile", "--hw4", self.dir / "hw4", "--json", self.json],
                          env=environment)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        for kernel in KERNELS:
            self.assertEqual(done.stdout.count(f"\nt28   {kernel} "), 5, kernel)
        call, = map(json.loads, (self.dir / "calls").read_text().splitlines())
        self.assertEqual(call[3].split(","), [*metrics.columns(), *gpu_peaks.COLUMNS])
        self.assertEqual(call[4:10], ["--csv", "--page", "raw", "--print-units", "base", "--log-file"])
        self.assertEqual(call[11:-1], [str(self.dir / "hw4"), "bench", "--once", "--device", "gpu", "--impl", "f32",
                                       "--passes", "forward", "--kind", "uniform", "--quiet", "--kernel", "all",
                                       "--shape", "4,16384,64", "--output"])
        document = json.loads(self.json.read_text())
        self.assertTrue(document["complete"])
        self.assertNotIn(str(self.dir), json.dumps(document["ncu"]))
        self.assertEqual([metric["key"] for metric in document["metrics"]], KEYS)
        shared = document["launches"][1]
        self.assertEqual({key: value for key, value in shared.items() if key not in ("metrics", "stalls")},
                         {"case": "t28", "batches": 4, "tokens": 16384, "dim": 64,
                          "kernel": "shared_tiles",
                          "function": "void row_tiles<RowTiling<unnamed>::SharedTiles, 2>>(KernelArgs)"})
        self.assertEqual(shared["metrics"]["shared_load_conflicts"], 66572333314)
        self.assertEqual(shared["stalls"]["barrier"], 3.5)


if __name__ == "__main__":
    unittest.main()
