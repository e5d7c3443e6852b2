"""A real folder through FUSE, with faults on demand: fuse_folder.py MOUNTPOINT SOURCE RULES.

RULES is a folder of JSON files, one for each faulty file and named as that one, or "all": {"on": "read", "open", "flush" or "list",
"error": "EIO", "times": 3} fails so often, then works; {"on": "read", "sleep": true} does not answer until the
rule is removed; {"on": "read", "takes": 0.02} answers so many seconds later, as a slow store does. With "under": "/a" it is for
what lies there only. It prints "ready" when mounted and runs until it is unmounted. Where root starts it, all users see it.

Mount is a context manager for the tests; it wakes all sleepers before it unmounts.
"""

import errno
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import threading
import time

POLL_S = 0.02  # how often a sleeper looks whether its rule is still there


class Mount:
    """folder: where the faulty view of source is."""

    def __init__(self, source):
        self.source = pathlib.Path(source)
        self._base = tempfile.TemporaryDirectory(prefix="sl-fuse")
        self.folder = pathlib.Path(self._base.name) / "mount"
        self._rules = pathlib.Path(self._base.name) / "rules"
        self.folder.parent.chmod(0o755)  # other users pass
        self.folder.mkdir()
        self._rules.mkdir()
        command = [sys.executable, __file__, self.folder, source, self._rules]
        said = pathlib.Path(self._base.name) / "stderr"  # a file: fusepy tells of every fault, and pipes fill
        with open(said, "w") as errors:
            self._server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True)
        self.trouble = None
        if self._server.stdout.readline() != "ready\n":
            self._server.wait(timeout=30)
            self.trouble = said.read_text()

    def rule(self, name, **rule):
        fresh = self._rules / f".{name}"
        fresh.write_text(json.dumps(rule))
        fresh.rename(self._rules / name)

    def wake(self):
        for rule in self._rules.iterdir():
            rule.unlink()

    def asleep(self):
        """How many calls have fallen asleep so far."""
        marks = pathlib.Path(self._base.name) / "asleep"
        return len(marks.read_text().splitlines()) if marks.exists() else 0

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.wake()
        if self.trouble is None:
            subprocess.run(["umount", "-l", str(self.folder)], check=True)
            self._server.communicate(timeout=30)
        self._base.cleanup()


def serve(mountpoint, source, rules):
    import fusepy

    class Folder(fusepy.Operations):
        failed = {}
        lock = threading.Lock()

        def init(self, path):
            print("ready", flush=True)

        def getattr(self, path, fh=None):
            status = os.lstat(source + path)
            return {key: getattr(status, key) for key in ("st_mode", "st_nlink", "st_size", "st_mtime", "st_uid")}

        def readdir(self, path, fh):
            self.fault("list", path)
            return [".", "..", *os.listdir(source + path)]

        def open(self, path, flags):
            self.fault("open", path)
            return os.open(source + path, os.O_RDONLY)

        def flush(self, path, fh):
            self.fault("flush", path)

        def release(self, path, fh):
            os.close(fh)

        def read(self, path, size, offset, fh):
            self.fault("read", path)
            return os.pread(fh, size, offset)

        def fault(self, what, path):
            for name in (os.path.basename(path), "all"):
                file = os.path.join(rules, name)
                try:
                    with open(file) as text:
                        rule = json.load(text)
                except OSError:
                    continue
                if rule["on"] != what or not path.startswith(rule.get("under", "/")):
                    continue
                if "takes" in rule:
                    time.sleep(rule["takes"])
                    return
                if rule.get("sleep"):
                    with open(os.path.join(rules, "..", "asleep"), "a") as marks:
                        marks.write(path + "\n")
                    while os.path.exists(file):
                        time.sleep(POLL_S)
                    return
                with self.lock:
                    self.failed[name, path] = count = self.failed.get((name, path), 0) + 1
                if count <= rule["times"]:
                    raise fusepy.FuseOSError(getattr(errno, rule["error"]))

    fusepy.FUSE(Folder(), mountpoint, foreground=True, direct_io=True, allow_other=os.geteuid() == 0)


if __name__ == "__main__":
    serve(*sys.argv[1:])
