"""count_results.py [--broken N] FOLDER: adds up JUnit reports and prints the closing line of test.sh.

A ctest entry is a program with many cases. Where its output shows cmocka's lines ("[       OK ] name") each
case counts; a program that failed without naming a case (a crash, a time-out, a sanitizer's report at the end)
counts as one failure, and a program without such lines as one test. `--broken` adds steps that failed
outside any test. Exit 0 if something passed and nothing failed, else 1. An unreadable report is a failure.
"""

import argparse
import collections
import pathlib
import re
import sys
import xml.etree.ElementTree as ElementTree

OK = re.compile(r"^\[ {7}OK \] (\S+)$", re.MULTILINE)
FAILED = re.compile(r"^\[  FAILED  \] (\S+)$", re.MULTILINE)
SKIPPED = re.compile(r"^\[  SKIPPED \] (\S+)$", re.MULTILINE)


def verdict(case):
    """What the runner itself says of an entry."""
    if case.find("failure") is not None or case.find("error") is not None or case.get("status") == "fail":
        return "failed"
    if case.find("skipped") is not None or case.get("status") in ("notrun", "disabled"):
        return "skipped"
    return "passed"


def count_case(case):
    """One <testcase> as a Counter of passed, failed and skipped."""
    whole = verdict(case)
    output = case.findtext("system-out") or ""
    # cmocka repeats the names of failed and skipped cases in its summary, hence the sets.
    counts = collections.Counter(passed=len(OK.findall(output)), failed=len(set(FAILED.findall(output))),
                                 skipped=len(set(SKIPPED.findall(output))))
    if case.get("status") is None or not sum(counts.values()):  # pytest's, or no cmocka program
        return collections.Counter({whole: 1})
    if whole == "failed" and not counts["failed"]:
        counts["failed"] = 1
    return counts


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--broken", type=int, default=0)
    options = parser.parse_args()
    total = collections.Counter(failed=options.broken)
    for report in sorted(options.folder.glob("*.xml")):
        try:
            for case in ElementTree.parse(report).iter("testcase"):
                total += count_case(case)
        except ElementTree.ParseError as error:
            print(f"{report}: {error}", file=sys.stderr)
            total["failed"] += 1
    print(f"{total['passed']} passed, {total['failed']} failed, {total['skipped']} skipped")
    return 0 if total["passed"] and not total["failed"] else 1


if __name__ == "__main__":
    sys.exit(main())
