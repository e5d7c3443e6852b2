"""torch's own DataLoader tests, run against speedyloader.torch.DataLoader.

--suite FILE is torch's public test/test_dataloader.py of the release that the environment has (or another
suite written like it, such as torchdata's). It is neither kept here nor fetched: take it from the tag of your
torch's version. In a copy in a temporary folder DataLoader comes from bench/suite/under_test.py, in the programs
that tests start too; the tests are run unchanged, each with a time limit, in processes that are started anew
after one that hangs or crashes.

  passed          it passed, and made at least one loader of ours
  not applicable  with the reason: it made none of ours (it tests data sets, samplers, collate functions or
                  DataPipes); the suite skips it here; or it failed as bench/suite/reasons.py expects,
                  for it looks into torch's loader, or wants what guest workers do otherwise on purpose
  failed          all else

Figures: passed, not_applicable, failed. The packages that the suite needs and the environment lacks
(expecttest) are installed below build/ the first time. Caveat: a pass says nothing about speed.
"""

import ast
import json
import os
import pathlib
import re
import select
import signal
import subprocess
import tempfile

import common
from python.environment import (  # cmake_settings: bench/run asks this module for it
    add_arguments as add_python, cmake_settings, find_python, running_daemon, versions)
from suite.reasons import why_not
from tail import say

TARGETS = ["speedyloaderd", "speedyloader-worker", "speedyloader", "speedyloader_python"]
HELPERS = common.ROOT / "bench" / "suite"
PACKAGES = common.ROOT / "build" / "peer-packages"
NEEDED = "expecttest==0.3.0"
START_S = 600  # until a process has imported the suite, on a busy machine
IMPORT = "from under_test import DataLoader"
PASS, NOT, FAIL = "passed", "not applicable", "failed"


def add_arguments(parser):
    add_python(parser)
    parser.add_argument("--suite", type=pathlib.Path, help="the file with the tests (needed)")
    parser.add_argument("--only", default="", help="tests in whose name this is found (a regular expression)")
    parser.add_argument("--limit", type=float, default=120, help="seconds for a test (default: 120)")


def with_ours(lines):
    """An import statement, after which DataLoader is ours. What imports nothing else goes: its module need not be
    there."""
    names = [name.asname or name.name for name in ast.parse("\n".join(lines)).body[0].names]
    if "DataLoader" not in names:
        return lines
    return [IMPORT] if names == ["DataLoader"] else [*lines, IMPORT]


def in_programs(lines):
    """The same for the programs that tests keep as text: imports of one line, at its begin."""
    for line in lines:
        imports = re.fullmatch(r"from [\w.]+ import [\w, ]*\bDataLoader\b[\w, ]*", line)
        yield from with_ours([line]) if imports else [line]


def with_our_loader(text):
    """The suite's text, in which DataLoader is ours from its import on."""
    lines = text.splitlines()
    for statement in ast.parse(text).body:
        if isinstance(statement, ast.ImportFrom):
            first, last = statement.lineno - 1, statement.end_lineno
            changed = with_ours(lines[first:last])
            if IMPORT in changed:
                return "\n".join([*in_programs(lines[:first]), *changed, *in_programs(lines[last:])]) + "\n"
    raise common.BenchError("the suite does not import DataLoader at its top level")


def add_packages(python):
    if (PACKAGES / "expecttest").exists():
        return
    say(f"installing {NEEDED} below build/")
    common.run_program([python, "-m", "pip", "install", "--quiet", "--no-deps", "--target", PACKAGES, NEEDED])


class Child:
    """A process that runs tests of the suite and tells of them line by line: bench/suite/run_tests.py."""

    def __init__(self, python, folder, suite, names, environment):
        self._log = tempfile.TemporaryFile("w+", errors="replace")
        self._told, theirs = os.pipe()
        self._heard = b""
        try:
            self._process = subprocess.Popen(
                [python, "-B", HELPERS / "run_tests.py", suite, str(theirs), *names], cwd=folder,
                pass_fds=[theirs], stdin=subprocess.DEVNULL, stdout=self._log, stderr=self._log,
                env=environment, start_new_session=True)
        finally:
            os.close(theirs)
        self._end = os.pidfd_open(self._process.pid)  # processes that a test has left may keep the pipe open

    def hear(self, limit):
        """The next line; None when it has ended. TimeoutError when it says nothing for so many seconds."""
        while b"\n" not in self._heard:
            ready = select.select([self._told, self._end], [], [], limit)[0]
            if not ready:
                raise TimeoutError
            some = os.read(self._told, 1 << 16) if self._told in ready else b""
            if not some:
                return None
            self._heard += some
        line, _, self._heard = self._heard.partition(b"\n")
        return json.loads(line)

    def close(self):
        """Kills what is left of it; the last lines that it printed."""
        try:
            os.killpg(self._process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self._process.wait()
        os.close(self._told)
        os.close(self._end)
        self._log.seek(0)
        return self._log.read().splitlines()[-8:]


def names_of(child):
    """Of all tests, by a child that was started without any."""
    told = None
    try:
        told = child.hear(START_S)
    except TimeoutError:
        pass
    finally:
        printed = child.close()
    if told is None:
        raise common.BenchError("the suite could not be imported: " + " | ".join(printed))
    return told["tests"]


def run_some(child, limit, results):
    """Takes what the child tells into `results` until it ends: the test that it has begun and not ended, or
    None, and what became of it."""
    at_hand = None
    try:
        while (told := child.hear(limit if at_hand else START_S)) is not None:
            if "begin" in told:
                at_hand = told["begin"]
            else:
                results[told["end"]] = told
                say(f"{told['status']:5} {told['end']}")
                at_hand = None
    except TimeoutError:
        return at_hand, f"it did not end within {limit:.0f} s"
    return at_hand, "its process ended"


def run_all(start, names, limit, made):
    """{name: what was told of it}. `start(names)` gives a Child; `made` is the file in which the loaders are noted."""
    results = {}
    while missing := [name for name in names if name not in results]:
        child = start(missing)
        try:
            at_hand, what = run_some(child, limit, results)
        finally:
            printed = child.close()
        if at_hand is not None:
            say(f"fail  {at_hand}: {what}")
            results[at_hand] = {"status": "fail", "text": "\n".join([*printed, what]), "made": made.read_text()}
        elif missing[0] not in results:
            raise common.BenchError("the suite could not be run: " + " | ".join(printed))
    return results


def gist(lines):
    """The line of a traceback that says what was raised; the last one of what is no traceback."""
    raised = [line for line in lines if re.match(r"[\w.]+(Error|Exception|Failure|Exit|Iteration)\b", line)]
    return (raised or lines or [""])[-1]


def judge(name, told):
    """(PASS, NOT or FAIL; a line about it)"""
    lines = told["text"].strip().splitlines()
    if told["status"] == "skip":
        return NOT, f"the suite skips it here: {lines[0] if lines else 'no reason given'}"
    if told["status"] == "fail" and set(told["made"]) != {"t"}:  # else it is torch's own loader that fails
        reason = why_not(name, told["text"])
        return (NOT, reason) if reason else (FAIL, gist(lines))
    if "o" not in told["made"]:
        return NOT, "it is about DataPipes" if "t" in told["made"] else "it makes no loader"
    return PASS, ""


def measure(options):
    if options.suite is None or not options.suite.is_file():
        raise common.BenchError("--suite FILE is needed: torch's test/test_dataloader.py")
    python = find_python(options)
    add_packages(python)
    with tempfile.TemporaryDirectory(prefix="sl-bench-") as folder, running_daemon(1, "4GiB") as socket:
        copy = pathlib.Path(folder, options.suite.name)
        copy.write_text(with_our_loader(options.suite.read_text(encoding="utf-8")), encoding="utf-8")
        paths = [folder, HELPERS, common.BUILD / "python", PACKAGES]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, paths)), "PYTHONNOUSERSITE": "1",
                       "SPEEDYLOADER_PEER_SOCKET": str(socket), "SPEEDYLOADER_PEER_MADE": f"{folder}/made"}

        def start(names):
            return Child(python, folder, copy.stem, names, environment)

        names = [name for name in names_of(start([])) if re.search(options.only, name)]
        results = run_all(start, names, options.limit, pathlib.Path(folder, "made"))
    judged = {name: judge(name, results[name]) for name in names}
    notes = [f"{verdict:15} {name}{': ' if why else ''}{why}" for verdict in (PASS, NOT, FAIL)
             for name, (found, why) in judged.items() if found == verdict]
    counts = {verdict: sum(found == verdict for found, _ in judged.values()) for verdict in (PASS, NOT, FAIL)}
    found = ", ".join(f"{name} {version}" for name, version in versions(python).items())
    notes.append(f"{counts[PASS]} passed, {counts[NOT]} not applicable, {counts[FAIL]} failed; with {found}")
    return common.Report([], {verdict.replace(" ", "_"): count for verdict, count in counts.items()}, notes)
