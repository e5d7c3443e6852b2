"""The examples and the code of docs/migrate.md run as they stand, as real processes, on real photographs."""

import ast
import json
import math
import pathlib
import re
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
from support.daemon import PYTHON_PACKAGES, Daemons

ROOT = pathlib.Path(__file__).parents[2]
EXAMPLES = ROOT / "examples" / "python"
MIGRATE = ROOT / "docs" / "migrate.md"
PROGRAMS = sorted(EXAMPLES.glob("*.py"))
NOTEBOOK = EXAMPLES / "show_batch.ipynb"
TORCHRUN = pathlib.Path(sys.executable).with_name("torchrun")
MOST_LINES = 40
GUESSING = math.log(2)  # the loss of who knows only that there are two classes
DEADLINE = 300  # seconds; a run takes a few

LOSS = re.compile(r"loss at the start ([\d.]+), at the end ([\d.]+)")
RANK = re.compile(r"rank (\d+) of (\d+), epoch (\d+): (\d+) batches, loss ([\d.]+), (\d+) samples twice")

# Runs a page's blocks one after the other. `train`, the reader's own code, notes what it is given.
RUN_BLOCKS = """
import json, sys
for line, text in json.load(open(sys.argv[1])):
    given = []
    train = lambda *arrays: given.append([list(array.shape) for array in arrays])
    exec(compile(text, f"migrate.md, block in line {line}", "exec"), {"epochs": 1, "train": train})
    print(json.dumps([line, given]), flush=True)
"""


@pytest.fixture(scope="module")
def printed(request, photos, few_photos, tmp_path_factory):
    """printed(program): what a program says that finds a daemon of its own in its environment.

    Those of all tests that are to run are run two at a time: most of them imports, on one core.
    """
    folder = tmp_path_factory.mktemp("programs")
    commands = {
        "torch_resnet18.py": [EXAMPLES / "torch_resnet18.py", few_photos, "--steps", 24, "--size", 32],
        "jax_train.py": [EXAMPLES / "jax_train.py", few_photos, "--steps", 60, "--size", 32],
        "keras_train.py": [EXAMPLES / "keras_train.py", few_photos, "--steps", 60, "--size", 32],
        "ddp_train.py": [TORCHRUN, "--standalone", "--nproc-per-node", 2, "--log-dir", folder,
                         EXAMPLES / "ddp_train.py", few_photos, "--size", 32],
        "migrate.md": [folder / "run_blocks.py", folder / "blocks.json"]}
    (folder / "blocks.json").write_text(json.dumps(runs_of_migrate(photos)))
    (folder / "run_blocks.py").write_text(RUN_BLOCKS)

    def run(command):
        with Daemons() as daemons:
            daemons.environment |= {
                "SPEEDYLOADER_SOCKET": str(daemons.start().socket), "OMP_NUM_THREADS": "1", "TF_CPP_MIN_LOG_LEVEL": "2",
                "XLA_FLAGS": "--xla_backend_optimization_level=0",  # JAX mostly compiles here
                "GLOO_SOCKET_IFNAME": "lo", "TORCHINDUCTOR_CACHE_DIR": str(daemons.folder / "torch")}
            process = daemons.begin_python(*command)
            out, _ = process.communicate(timeout=DEADLINE)
            assert process.returncode == 0, out
            return out

    wanted = {item.callspec.params.get("program") for item in request.session.items if hasattr(item, "callspec")}
    with ThreadPoolExecutor(2) as pool:
        running = {name: pool.submit(run, command) for name, command in commands.items() if name in wanted}
        yield lambda program: running[program].result()


@pytest.fixture
def kernel(daemons):
    """The manager of a notebook kernel that is this interpreter, whatever kernels are installed."""
    from jupyter_client import AsyncKernelManager
    from jupyter_client.kernelspec import KernelSpecManager

    folder = daemons.folder / "kernels" / "this"
    folder.mkdir(parents=True)
    command = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    (folder / "kernel.json").write_text(json.dumps(
        {"argv": command, "display_name": "this interpreter", "language": "python"}))
    return AsyncKernelManager(
        kernel_name="this", kernel_spec_manager=KernelSpecManager(kernel_dirs=[str(folder.parent)]),
        transport="ipc", connection_file=str(daemons.folder / "k.json"))


def blocks(page):
    """(line, text) of each block of Python in a page."""
    text = page.read_text()
    return [(text.count("\n", 0, found.start()) + 1, found[1])
            for found in re.finditer(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)]


def runs_of_migrate(photos):
    """The blocks of the migration page, before and after alike; all but DALI's, which is not among the packages that
    tests install."""
    return [(line, text.replace("/data/train", str(photos))) for line, text in blocks(MIGRATE)
            if "nvidia.dali" not in text]


def lines_of_code(text):
    """Lines with code on them: not blank, not a comment, not in the docstring."""
    lines = {number for number, line in enumerate(text.splitlines(), 1)
             if line.strip() and not line.lstrip().startswith("#")}
    first = ast.parse(text).body[0]
    if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
        lines -= set(range(first.lineno, first.end_lineno + 1))
    return len(lines)


@pytest.mark.parametrize("program", ["torch_resnet18.py", "jax_train.py", "keras_train.py"])
def test_a_few_steps_bring_the_loss_below_that_of_guessing(printed, program):
    out = printed(program)
    start, end = map(float, LOSS.search(out).groups())
    assert end < min(0.85 * start, GUESSING), out


@pytest.mark.parametrize("program", ["ddp_train.py"])
def test_two_ranks_train_together_on_equally_many_batches_and_no_sample_twice(printed, program):
    out = printed(program)
    lines = sorted((int(epoch), int(rank), int(ranks), int(batches), float(loss), int(twice))
                   for rank, ranks, epoch, batches, loss, twice in RANK.findall(out))
    assert [line[:4] for line in lines] == [
        (epoch, rank, 2, 2) for epoch in range(3) for rank in range(2)], out
    assert all(twice == 0 for *_, twice in lines), out
    losses = [sum(line[4] for line in lines if line[0] == epoch) / 2 for epoch in range(3)]
    assert losses[-1] < min(0.85 * losses[0], GUESSING), out


def test_the_notebook_shows_a_batch_and_the_cost_of_every_sample(daemons, daemon, kernel, few_photos):
    import nbclient
    import nbformat

    environment = daemons.environment | {
        "SPEEDYLOADER_SOCKET": str(daemon.socket), "PHOTOS": str(few_photos),
        "IPYTHONDIR": str(daemons.folder / "ipython"), "PYTHONPATH": str(PYTHON_PACKAGES)}
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    nbclient.NotebookClient(notebook, km=kernel, timeout=DEADLINE).execute(cleanup_kc=True, env=environment)
    outputs = {cell.id: cell.outputs for cell in notebook.cells if cell.cell_type == "code"}
    for cell in ("grid", "costs"):
        assert any("image/png" in output.get("data", {}) for output in outputs[cell]), outputs[cell]
    assert outputs["end"][0].data["text/plain"] == "(40, 'samples in the epoch')"


def test_the_notebook_is_kept_without_outputs():
    cells = [cell for cell in json.loads(NOTEBOOK.read_text())["cells"] if cell["cell_type"] == "code"]
    assert [(cell["outputs"], cell["execution_count"]) for cell in cells] == [([], None)] * len(cells)


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda path: path.name)
def test_an_example_is_short(program):
    assert lines_of_code(program.read_text()) <= MOST_LINES


def test_every_example_is_in_the_table_and_in_a_test():
    readme = (EXAMPLES / "README.md").read_text()
    here = pathlib.Path(__file__).read_text()
    for program in [*PROGRAMS, NOTEBOOK]:
        assert f"| `{program.name}` |" in readme and f'"{program.name}"' in here


@pytest.mark.parametrize("program", ["migrate.md"])
def test_the_code_of_the_migration_page_runs_and_trains_on_whole_batches(printed, photos, program):
    runs = runs_of_migrate(photos)
    assert sum("import speedyloader" in text for _, text in runs) >= 5
    done = [json.loads(line) for line in printed(program).splitlines() if line.startswith("[")]
    assert [line for line, _ in done] == [line for line, _ in runs]
    for (line, given), (_, text) in zip(done, runs):
        shapes = [64, 224, 224, 3] if "tensorflow" in text or "NHWC" in text else [64, 3, 224, 224]
        assert given == [[shapes, [64]]] * (3 if "train(" in text else 0), f"the block in line {line}"
