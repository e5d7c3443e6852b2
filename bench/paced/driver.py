"""The loaders of bench/tail.py, each in a process of its own, and the rounds that they take turns in.

Used by bench/tail.py. Not thread-safe. Failure is BenchError with the last lines that the loader has printed;
every process that was started has ended then.
"""

import json
import os
import pathlib
import select
import signal
import subprocess
import tempfile

import common

HERE = pathlib.Path(__file__).resolve().parent
BATCH, LOAD = 16, 0.95
PATIENCE = 300  # seconds for an epoch
# name: (kind, script, its words after folder and workers). Of each kind the first that takes part measures
# what a sample costs, for order costs nothing there.
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


class Loader:
    """One loader in a process of its own (bench/paced), driven line by line."""

    def __init__(self, name, python, folder, workers):
        _, script, words = LOADERS[name]
        self.name = name
        self._errors = tempfile.TemporaryFile("w+")
        self._process = subprocess.Popen(
            [str(python), "-B", str(HERE / script), str(folder), str(workers), *words], text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors, start_new_session=True,
            env=os.environ | {"SL_BUILD_DIR": str(common.BUILD)})

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
    """All loaders on one set with one number of workers, and what a sample costs each kind of them."""

    def __init__(self, names, pythons, folder, workers):
        self.batches = len(list(folder.glob("*/*.jpg"))) // BATCH
        self.cores = min(workers, len(os.sched_getaffinity(0)))
        self.cost = {}  # kind: CPU seconds a sample
        self.loaders = {}
        self.first = {}  # what each loader told of its first epoch
        try:
            for name in names:
                self.loaders[name] = Loader(name, pythons[LOADERS[name][0]], folder, workers)
            for loader in self.loaders.values():
                loader.wait_until_ready()
            for name in names:
                kind = LOADERS[name][0]
                self.first[name] = self.loaders[name].take(self.batches, 0.0)
                if kind not in self.cost:  # roughly, then at the pace that the counted epochs will have
                    self._learn_cost(name, self.first[name])
                    self._learn_cost(name, self.loaders[name].take(self.batches, self._step(name)))
        except BaseException:
            self.close()
            raise

    def _learn_cost(self, name, told):
        self.cost[LOADERS[name][0]] = told["cpu_s"] / (self.batches * BATCH)

    def _ideal(self, name):
        """Seconds a batch."""
        return BATCH * self.cost[LOADERS[name][0]] / self.cores

    def _step(self, name):
        return self._ideal(name) / LOAD

    def round(self, number, say):
        """{name: what it told of the counted epoch}. Kinds take turns in going first; within a kind the first
        loader keeps its place, for it finds the step of the others."""
        kinds = list(dict.fromkeys(LOADERS[name][0] for name in self.loaders))
        shift = number % len(kinds)
        found = {}
        for kind in kinds[shift:] + kinds[:shift]:
            first, *others = [name for name in self.loaders if LOADERS[name][0] == kind]
            shift_others = number % max(1, len(others))
            for name in [first, *others[shift_others:], *others[:shift_others]]:
                say(f"round {number + 1}: {name}")
                found[name] = self._counted(name, name == first)
        return found

    def _counted(self, name, is_first):
        loader = self.loaders[name]
        lead_in = loader.take(self.batches, self._step(name))
        if is_first:
            self._learn_cost(name, lead_in)
        told = loader.take(self.batches, self._step(name), memory=True)
        told["step_s"] = self._step(name)
        told["share"] = self.batches * self._ideal(name) / told["seconds"]
        told["cpu_per_1k"] = 1000 * told["cpu_s"] / (self.batches * BATCH)
        return told

    def close(self):
        for loader in self.loaders.values():
            loader.close()
