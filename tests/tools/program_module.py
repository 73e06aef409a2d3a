"""Loads a program without .py in its name as a module, so that tests can call its functions or run it as a whole."""
import concurrent.futures
import importlib.machinery
import importlib.util
import multiprocessing
import os
import runpy
import signal
import subprocess
import sys
import threading

PATIENCE_S = 120


def program_as_module(path):
    loader = importlib.machinery.SourceFileLoader(path.name, str(path))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(path.name, loader))
    written, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    try:
        loader.exec_module(module)
    finally:
        sys.dont_write_bytecode = written
    return module


def become(program, arguments, pipes, settings):
    """Runs the program in a child process with its own group, so that all that it starts can be ended with it."""
    os.setsid()
    for number, pipe in enumerate(pipes, 1):
        os.dup2(pipe, number)
    sys.stdout = open(1, "w", encoding="utf-8", closefd=False)
    sys.stderr = open(2, "w", buffering=1, encoding="utf-8", errors="backslashreplace", closefd=False)
    if "cwd" in settings:
        os.chdir(settings["cwd"])
    if "env" in settings:
        os.environ.clear()
        os.environ.update(settings["env"])
        sys.path[:0] = filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))
    sys.argv = [program, *arguments]
    sys.path.insert(0, os.path.dirname(program))
    runpy.run_path(program, run_name="__main__")


def run_forked(command, **settings):
    """What subprocess.run() gives for [sys.executable, program, ...] with its output captured as text; settings: cwd
    and env. Exit handlers do not run. Runs in a copy of this process, with its imported modules: starting Python takes
    several times as long as the programs do here. Tests of starting, streams or signals start it normally."""
    program, *arguments = map(os.fspath, command[1:])
    ends = [os.pipe(), os.pipe()]
    running = multiprocessing.get_context("fork").Process(target=become, args=(
        program, arguments, [written for _, written in ends], settings))
    running.start()
    for _, written in ends:
        os.close(written)
    late = threading.Timer(PATIENCE_S, lambda: os.killpg(running.pid, signal.SIGKILL))
    late.start()
    out, errors = (open(read, encoding="utf-8") for read, _ in ends)
    with out, errors, concurrent.futures.ThreadPoolExecutor(1) as beside:
        said = beside.submit(errors.read)
        done = out.read(), said.result()
    running.join()
    late.cancel()
    late.join()
    if running.exitcode == -signal.SIGKILL:
        raise subprocess.TimeoutExpired(command, PATIENCE_S)
    return subprocess.CompletedProcess(command, running.exitcode, *done)
