#!/usr/bin/env python3
"""hw4 as tasks of a real Slurm, which this test starts on this machine: the bytes of one process, and a common end.

    HW4_SOAK=1 python3 tests/program/slurm_test.py [-v] [TestClass[.test_name]]

Needs root, munged and Debian's slurm-wlm, whose srun starts tasks with PMIx. All written files are in a folder of /tmp.
HW4_BUILD and HW4_BIN as for ranks_test.py.
"""
import contextlib
import os
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import unittest
from pathlib import Path

import cli_test
import ranks_test
from cli_test import BAD_DATA, OK, OLD_OUTPUT, PATIENCE, USAGE, generated, generated_by, wait_until
from fault_test import SOAK
from ranks_test import HW4_MPI, RanksTest, bytes_of_one

CONFIGURATION = """\
ClusterName=hw4
SlurmctldHost={node}(127.0.0.1)
SlurmUser=root
AuthInfo=socket={folder}/munge/socket
SlurmctldPort={ports[0]}
SlurmdPort={ports[1]}
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
ProctrackType=proctrack/pgid
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SlurmdParameters=config_overrides
KillWait=2
NodeName={node} NodeAddr=127.0.0.1 CPUs=8 State=UNKNOWN
PartitionName=all Nodes={node} Default=YES State=UP
"""


class Slurm:
    """A cluster of one node, independent of any Slurm on the machine."""

    def __init__(self):
        self.folder = Path(tempfile.mkdtemp(prefix="hw4-slurm-", dir="/tmp"))
        self.environment = {**os.environ, "SLURM_CONF": str(self.folder / "slurm.conf")}

    def start(self):
        munge = self.folder / "munge"
        for folder in (munge, self.folder / "state", self.folder / "spool"):
            folder.mkdir(mode=0o700)
        self.folder.chmod(0o755)
        munge.chmod(0o711)
        (munge / "key").write_bytes(os.urandom(128))
        (munge / "key").chmod(0o400)
        with socket.socket() as one, socket.socket() as other:
            for taken in (one, other):
                taken.bind(("127.0.0.1", 0))
            ports = [taken.getsockname()[1] for taken in (one, other)]
        text = CONFIGURATION.format(node=socket.gethostname().split(".")[0], folder=self.folder, ports=ports)
        (self.folder / "slurm.conf").write_text(text, encoding="utf-8")
        self.call("munged", "--force", f"--key-file={munge}/key", f"--socket={munge}/socket", f"--pid-file={munge}/pid",
                  f"--log-file={munge}/log", f"--seed-file={munge}/seed")
        self.call("slurmctld", "-c")
        self.call("slurmd", "-c")
        wait_until(lambda: "idle" in self.call("sinfo", "-h", "-o", "%T", check=False), "the node to be there")

    def call(self, *words, check=True):
        return subprocess.run(words, env=self.environment, capture_output=True, text=True, timeout=PATIENCE,
                              check=check).stdout

    def stop(self):
        for name in ("slurmd.pid", "slurmctld.pid", "munge/pid"):
            with contextlib.suppress(FileNotFoundError, ValueError, ProcessLookupError):
                process = int((self.folder / name).read_text(encoding="utf-8"))
                os.kill(process, signal.SIGTERM)
                wait_until(lambda pid=process: not Path(f"/proc/{pid}").exists(), f"{name} to end")
        shutil.rmtree(self.folder, ignore_errors=True)


SLURM = None


def setUpModule():
    if not SOAK:
        raise unittest.SkipTest("starts a Slurm of its own, for make soak-slurm")
    lacking = [name for name in ("munged", "slurmctld", "slurmd", "srun") if not shutil.which(name)]
    if lacking or os.geteuid() != 0:
        raise unittest.SkipTest(f"needs root and Slurm (Debian: slurm-wlm), lacks {', '.join(lacking) or 'root'}")
    ranks_test.setUpModule()
    global SLURM  # pylint: disable=global-statement
    SLURM = Slurm()
    unittest.addModuleCleanup(SLURM.stop)
    SLURM.start()


class SlurmTest(RanksTest):
    def setUp(self):
        super().setUp()
        self.case = generated(3, 300, 16)  # a batch per rank, where there are three ranks
        self.out.write_bytes(OLD_OUTPUT)

    def srun(self, tasks, *args, mpi="pmix", program=HW4_MPI):
        words = ["srun", f"--mpi={mpi}", "-n", str(tasks), "--overcommit", str(program), "--device", "cpu",
                 *map(str, args)]
        return subprocess.run(words, env=SLURM.environment, capture_output=True, text=True, timeout=PATIENCE,
                              stdin=subprocess.DEVNULL, check=False)

    def test_bytes_of_one(self):
        cases = (("--shape", "3,300,16"), ("--shape", "1,700,9", "--causal"),
                 ("--shape", "1,333,8", "--heads", "2,1", "--backward", "--causal"))
        for options in cases:
            path = generated_by(*options, "--seed", "5")
            for tasks in (1, 2, 3, 4):
                for gather in ((), ("--gather",)):
                    with self.subTest(options=options, tasks=tasks, gather=gather):
                        done = self.srun(tasks, *gather, path, self.out)
                        self.assertEqual(done.returncode, OK, done.stderr)
                        self.assert_same_bytes(self.out.read_bytes(), bytes_of_one(path))
                        self.assertEqual(self.temporaries(), [])
                        self.out.unlink()

    def test_a_rank_that_fails_ends_all_with_its_code(self):
        data = bytearray(self.case.read_bytes())
        data[-4:] = b"\0\0\xc0\x7f"  # NaN, in the last rank's share
        self.assert_all_fail(self.srun(3, self.file(bytes(data)), self.out), BAD_DATA, "nan, need a finite number")

    def test_tasks_that_do_not_know_of_one_another(self):
        for mpi, program in (("none", HW4_MPI), ("none", cli_test.PROGRAMS / "hw4"), ("pmix", cli_test.PROGRAMS / "hw4")):
            with self.subTest(mpi=mpi, program=program.name):
                done = self.srun(2, self.case, self.out, mpi=mpi, program=program)
                self.assertNotEqual(done.returncode, OK)
                self.assertEqual((self.out.read_bytes(), self.temporaries()), (OLD_OUTPUT, []))
                if program != HW4_MPI:  # MPI itself may report an error first
                    self.assertEqual(done.returncode, USAGE, done.stderr)
                    self.assertEqual(len(re.findall(r"hw4: started as 2 tasks", done.stderr)), 2, done.stderr)

    def test_a_task_by_itself_is_one(self):
        for mpi, program in (("pmix", HW4_MPI), ("none", HW4_MPI), ("none", cli_test.PROGRAMS / "hw4")):
            with self.subTest(mpi=mpi, program=program.name):
                done = self.srun(1, self.case, self.out, mpi=mpi, program=program)
                self.assertEqual((done.returncode, self.out.read_bytes()), (OK, bytes_of_one(self.case)), done.stderr)


if __name__ == "__main__":
    unittest.main()
