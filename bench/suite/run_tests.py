"""run_tests.py MODULE FD [TEST]...: runs tests of a suite and tells of each as it begins and ends.

Called by bench/peer_suite.py with the suite's folder on PYTHONPATH. Without a TEST it names them all. Lines
of JSON go to descriptor FD, for tests print what they like: {"tests": [...]}, {"begin": name}, {"end": name,
"status": "pass" | "fail" | "skip", "text": reason or traceback, "made": what the adapter has made, as bytes
of under_test.py}. Fails with what importing the suite raises.
"""

import importlib
import inspect
import json
import os
import pathlib
import sys
import unittest


def names_of(module):
    """Class.method of every test in the module, in its order."""
    classes = [(name, member) for name, member in vars(module).items()
               if inspect.isclass(member) and issubclass(member, unittest.TestCase)
               and member.__module__ == module.__name__]
    return [f"{name}.{test}" for name, member in classes
            for test in unittest.defaultTestLoader.getTestCaseNames(member)]


class Result(unittest.TestResult):
    """The worst that was said of the test at hand."""

    def __init__(self):
        super().__init__()
        self.status, self.text = "pass", ""

    def _failed(self, error):
        self.status, self.text = "fail", self._exc_info_to_string(error, self._test)

    def startTest(self, test):
        super().startTest(test)
        self._test = test

    def addError(self, test, error):
        self._test = test
        self._failed(error)

    addFailure = addError

    def addSubTest(self, test, subtest, error):
        if error is not None:
            self._failed(error)

    def addSkip(self, test, reason):
        if self.status == "pass":
            self.status, self.text = "skip", reason

    def addUnexpectedSuccess(self, test):
        self.status, self.text = "fail", "it was expected to fail"


def run(module, name):
    made = pathlib.Path(os.environ["SPEEDYLOADER_PEER_MADE"])
    made.write_bytes(b"")
    result = Result()
    class_name, _, method = name.partition(".")
    unittest.TestSuite([getattr(module, class_name)(method)]).run(result)  # with what its class sets up
    return {"end": name, "status": result.status, "text": result.text,
            "made": made.read_text(encoding="ascii")}


def main():
    module, descriptor, *names = sys.argv[1:]
    # Not inherited by the suite's processes, so that the reader sees this one end.
    os.set_inheritable(int(descriptor), False)
    with open(int(descriptor), "w", encoding="utf-8", buffering=1) as out:
        suite = importlib.import_module(module)
        if not names:
            out.write(json.dumps({"tests": names_of(suite)}) + "\n")
        for name in names:
            out.write(json.dumps({"begin": name}) + "\n")
            out.write(json.dumps(run(suite, name)) + "\n")
        out.flush()
    os._exit(0)  # what a test has left running must not hold up the end


if __name__ == "__main__":
    main()
