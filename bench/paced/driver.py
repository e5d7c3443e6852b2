"""Loaders with a paced consumer, each in a process of its own, and the rounds that they take turns in.

Used by bench/tail.py and bench/dropin_tail.py. Not thread-safe. Failure is BenchError with the last lines that
the loader has printed; every process that was started has ended then.
"""

import dataclasses
import json
import os
import pathlib
import select
import signal
import subprocess
import tempfile

import common

HERE = pathlib.Path(__file__).resolve().parent
LOAD = 0.95
PATIENCE = 300  # seconds for an epoch
# Of bench/tail.py. name: (kind, script, its last words). Of each kind the first that takes part measures what a
# sample costs, for order costs nothing there.
LOADERS = {
    "ready": ("ours", "ours.py", ["ready"]),
    "strict": ("ours", "ours.py", ["strict"]),
    "fifo": ("ours", "ours.py", ["strict", "--no-predict"]),
    "torch_unordered": ("torch", "torch_loader.py", ["unordered"]),
    "torch_in_order": ("torch", "torch_loader.py", ["in_order"]),
    "torch_prefetch_4": ("torch", "torch_loader.py", ["in_order", "4"]),
    "tfdata": ("tensorflow", "tf_data.py", ["deterministic"]),
    "tfdata_any": ("tensorflow", "tf_data.py", ["any"]),
}


@dataclasses.dataclass
class Task:
    """What all loaders of a group do."""

    words: list  # of each script, before its last ones
    workers: int
    batches: int  # an epoch
    batch: int  # samples
    environment: dict = dataclasses.field(default_factory=dict)


class Loader:
    """One loader in a process of its own, which calls `serve` of server.py, driven line by line."""

    def __init__(self, name, words, environment):
        self.name = name
        self._errors = tempfile.TemporaryFile("w+")
        self._process = subprocess.Popen(
            [str(word) for word in words], text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=self._errors, start_new_session=True,
            env=os.environ | {"SL_BUILD_DIR": str(common.BUILD)} | environment)

    def wait_until_ready(self):
        self._hear()

    def take(self, batches, step_s, memory=False):
        """What server.py tells of so many batches."""
        order = {"batches": batches, "step_s": step_s, "memory": memory}
        try:
            self._process.stdin.write(json.dumps(order) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            self._fail("ended")
        return self._hear()

    def _hear(self):
        if not select.select([self._process.stdout], [], [], PATIENCE)[0]:
            self._fail(f"said nothing for {PATIENCE} s")
        line = self._process.stdout.readline()
        if not line:
            self._fail("ended")
        return json.loads(line)

    def _fail(self, what):
        self.close()
        self._errors.seek(0)
        raise common.BenchError(f"{self.name} {what}: " + " | ".join(self._errors.read().splitlines()[-5:]))

    def close(self):
        """The end of its stdin ends it; what stays is killed, with the daemon or workers below it."""
        try:
            self._process.stdin.close()
        except BrokenPipeError:
            pass  # it ended with a line unread
        try:
            self._process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        self._process.stdout.close()


class Group:
    """All loaders on one set with one number of workers, and what a sample costs each kind of them.

    `known` is a table like LOADERS, `pythons` has the Python of each kind; a script's path is below this folder
    or absolute.
    """

    def __init__(self, names, known, pythons, task):
        self.task = task
        self.cores = min(task.workers, len(os.sched_getaffinity(0)))
        self.kinds = {name: known[name][0] for name in names}
        self.cost = {}  # kind: CPU seconds a sample
        self.loaders = {}
        self.first = {}  # what each loader told of its first epoch
        try:
            for name in names:
                kind, script, last = known[name]
                self.loaders[name] = Loader(name, [pythons[kind], "-B", HERE / script, *task.words, *last],
                                            task.environment)
            for loader in self.loaders.values():
                loader.wait_until_ready()
            for name in names:
                self.first[name] = self.loaders[name].take(task.batches, 0.0)
                if self.kinds[name] not in self.cost:  # roughly, then at the pace of the counted epochs
                    self._learn_cost(name, self.first[name])
                    self._learn_cost(name, self.loaders[name].take(task.batches, self._step(name)))
        except BaseException:
            self.close()
            raise

    def _learn_cost(self, name, told):
        self.cost[self.kinds[name]] = told["cpu_s"] / (self.task.batches * self.task.batch)

    def _ideal(self, name):
        """Seconds a batch."""
        return self.task.batch * self.cost[self.kinds[name]] / self.cores

    def _step(self, name):
        return self._ideal(name) / LOAD

    def round(self, number, say):
        """{name: what it told of the counted epoch}. Kinds take turns in going first; within a kind the first
        loader keeps its place, for it finds the step of the others."""
        kinds = list(dict.fromkeys(self.kinds.values()))
        shift = number % len(kinds)
        found = {}
        for kind in kinds[shift:] + kinds[:shift]:
            first, *others = [name for name in self.loaders if self.kinds[name] == kind]
            shift_others = number % max(1, len(others))
            for name in [first, *others[shift_others:], *others[:shift_others]]:
                say(f"round {number + 1}: {name}")
                found[name] = self._counted(name, name == first)
        return found

    def _counted(self, name, is_first):
        loader, task = self.loaders[name], self.task
        lead_in = loader.take(task.batches, self._step(name))
        if is_first:
            self._learn_cost(name, lead_in)
        told = loader.take(task.batches, self._step(name), memory=True)
        told["step_s"] = self._step(name)
        told["share"] = task.batches * self._ideal(name) / told["seconds"]
        told["cpu_per_1k"] = 1000 * told["cpu_s"] / (task.batches * task.batch)
        return told

    def close(self):
        for loader in self.loaders.values():
            loader.close()
