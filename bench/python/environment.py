"""The Python environment of the benchmarks that import the package, and programs that are run in it.

That of ./test.sh, made if it is not there (some GB the first time); --python names another. Used by benchmark
modules. Not thread-safe. Failure is BenchError.
"""

import contextlib
import functools
import json
import os
import pathlib
import socket
import subprocess
import tempfile
import time

import common

# Run by bash at the project's root; says on stdout where the environment's Python is.
FIND_ENVIRONMENT = """
. cmake/shell-helpers.sh
. cmake/python-env.sh
clean_python_settings
mkdir -p build
make_python_env tests/python/requirements.txt >&2
printf '%s\\n' "$python_env/bin/python"
"""


def add_arguments(parser):
    parser.add_argument("--python", type=pathlib.Path,
                        help="the Python of an environment with nanobind (default: that of ./test.sh)")


@functools.cache
def environment_python():
    done = subprocess.run(["bash", "-euo", "pipefail", "-c", FIND_ENVIRONMENT, "bench/run"], cwd=common.ROOT,
                          stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        raise common.BenchError("the Python environment of the tests could not be made")
    return pathlib.Path(done.stdout.strip())


def find_python(options):
    return options.python.absolute() if options.python else environment_python()


def cmake_settings(options):
    """The package's module is compiled for the environment that will import it."""
    return ["-DSL_BUILD_PYTHON=ON", f"-DPython_EXECUTABLE={find_python(options)}"]


def run_json(*argv):
    """The JSON line that a helper program prints.

    Not common.run_program: it waits for every child of this process, and the daemon is one."""
    environment = {**os.environ, "PYTHONPATH": str(common.BUILD / "python"), "PYTHONNOUSERSITE": "1"}
    try:
        done = subprocess.run([str(word) for word in argv], capture_output=True, text=True, timeout=600,
                              env=environment, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise common.BenchError(str(error)) from error
    if done.returncode != 0:
        lines = (done.stderr.strip() or done.stdout.strip()).splitlines()[-5:]
        raise common.BenchError(f"{argv[0]} ended with status {done.returncode}: " + " | ".join(lines))
    return common.last_json(done.stdout)


def wait_for_daemon(process, path, log, patience=30):
    until = time.monotonic() + patience
    while True:
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as probe:
            probe.connect(str(path))
            return
        if process.poll() is not None or time.monotonic() > until:
            raise common.BenchError("the daemon does not answer: " + log.read_text(errors="replace")[-500:])
        time.sleep(0.005)


@contextlib.contextmanager
def running_daemon(workers, memory="1GiB"):
    """The socket of a daemon that lives as long as the context."""
    with tempfile.TemporaryDirectory(prefix="sl-bench-") as folder:
        path, log = pathlib.Path(folder, "socket"), pathlib.Path(folder, "log")
        with open(log, "wb") as output:
            process = subprocess.Popen(
                [common.BUILD / "bin" / "speedyloaderd", "--socket", path, "--workers", str(workers),
                 "--memory", memory], stdin=subprocess.DEVNULL, stdout=output, stderr=output)
        try:
            wait_for_daemon(process, path, log)
            yield path
        finally:
            process.terminate()
            try:
                process.wait(timeout=30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def versions(python):
    """What of the frameworks the environment has: {name: version}."""
    program = ("import importlib.metadata as m, json, platform\n"
               "found = {'Python': platform.python_version()}\n"
               "for name in ('numpy', 'torch', 'torchvision'):\n"
               "    try: found[name] = m.version(name)\n"
               "    except m.PackageNotFoundError: pass\n"
               "print(json.dumps(found))")
    return run_json(python, "-c", program)
