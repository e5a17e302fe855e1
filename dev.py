"""Commands for working on Lorewell: `python3 dev.py` lists them. Needs only Python."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parent
VENV = ROOT / ".venv"
BIN = VENV / ("Scripts" if os.name == "nt" else "bin")
PYTHON = BIN / ("python.exe" if os.name == "nt" else "python")
LOCK = ROOT / "requirements.lock"  # dependencies of the service
DEV_LOCK = ROOT / "requirements-dev.lock"  # also the extras, and the tools for checks and tests
STAMP = VENV / "lorewell-installed"
SERVE = [
    *("serve", "--database", "sqlite:///.sample/lorewell.db"),
    *("--sample", "examples/harbour.json", "--sample", "examples/mist-ferry.json"),
]
CHECKS = [
    ["ruff", "check"],
    ["ruff", "format", "--check"],
    ["mypy"],
    ["lint-imports"],
    ["deptry", "src"],
    ["vulture"],
    ["codespell"],
]
FOUND, UNPACKING = ("Collecting ", "Processing "), "Installing collected"  # lines of pip
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
APT = ["apt-get", "-qq", "-o", "DPkg::Lock::Timeout=120", "-o", "Acquire::Retries=3"]
APT_PAUSES_S = (0, 10, 30)  # before each attempt: apt-get update does not wait for its lock

# Neighbours share a server, so each worker has a run of them, and takes from another one at last.
PARALLEL = ["-n", "auto", "--dist", "worksteal"]
# Hundreds of processes import the package; what is compiled once is kept in any case.
KEEP_BYTECODE = {"PYTHONDONTWRITEBYTECODE": ""}
FAST = [
    *("tests/unit", "tests/property", "tests/golden"),
    *("--ignore=tests/property/test_import_scaling.py", "--ignore=tests/unit/test_compile_cost.py"),
    *(f"--ignore=tests/golden/test_{name}.py" for name in ("conformance", "limits", "sealed")),
]

ORACLES = [f"tests/property/test_sillytavern_{name}.py" for name in ("oracle", "macros")]
CAMPAIGNS = {
    "properties": (
        "thousands of examples for each property",
        ["-n", "auto", "tests/property", *(f"--ignore={each}" for each in ORACLES)],
    ),
    "oracle": (
        "25,000 random chats and 20,000 random texts of macros under SillyTavern's rules, twice",
        ["-n", "auto", *ORACLES],
    ),
    "fuzz": (
        "requests generated from the OpenAPI document",
        ["-n", "auto", "-p", "schemathesis", "tests/http/documented_answers.py"],
    ),
    "kills": (
        "servers killed at random moments",
        [
            "tests/deep/test_kills.py",
            "tests/deep/test_builds.py",
            *("tests/http/test_server_process.py", "-k", "kill"),
        ],
    ),
    "replicas": ("mixed load through three servers", ["tests/deep/test_replicas.py"]),
    "fuzz-files": (
        "ten minutes of coverage-guided fuzzing for each container and format reader",
        ["tests/deep/test_fuzz_files.py"],
    ),
    "files": (
        "import time of hostile files grows in proportion to their size",
        ["tests/deep/test_import_scaling.py"],
    ),
    "fields": ("hostile input in every field of every route", ["tests/deep/test_field_fuzz.py"]),
    "conditions": ("100,000 random condition texts", ["tests/deep/test_conditions.py"]),
    "conformance": (
        "the conformance runner on all cases",
        ["-n", "auto", "tests/golden/test_conformance.py"],
    ),
    "gateway": (
        "gateway overhead, many streams, and OpenAI's Node package",
        ["tests/deep/test_gateway.py"],
    ),
    "live": (
        "500 subscribers of the live channel and 200 selections a second",
        ["tests/deep/test_live.py"],
    ),
    "places": (
        "5,000 random chats of a trimming client, and 100,000 conversations",
        ["-n", "auto", "tests/deep/test_trimmed_chats.py"],
    ),
    "siege": ("a well-behaved client next to hostile ones", ["tests/deep/test_siege.py"]),
    "sillytavern": (
        "SillyTavern itself, installed from npm, in front of the gateway",
        ["tests/deep/test_sillytavern_app.py"],
    ),
    "throughput": (
        "selections per second, compared with an empty route",
        ["tests/deep/test_throughput.py"],
    ),
}


def call(
    command: list[str], *, cwd: Path | None = ROOT, stdout: int | None = None, **env: str
) -> int:
    """Run a program in UTF-8 mode, and return its exit code."""
    return subprocess.run(
        command, cwd=cwd, env=environment(**env), stdout=stdout, check=False
    ).returncode


def environment(**given: str) -> dict[str, str]:
    """Return the environment of child processes."""
    return {**os.environ, "PYTHONUTF8": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1", **given}


def polite() -> list[str]:
    """Return what makes a command give way to others, where there is such a program."""
    nice = shutil.which("nice")
    return [nice, "-n", "19"] if nice else []


def tool(name: str, *args: str) -> list[str]:
    """Return the command line of a program in `.venv`."""
    return [str(BIN / (f"{name}.exe" if os.name == "nt" else name)), *args]


def fingerprint(lock: Path) -> str:
    """Return a hash of everything that an installation from a lock depends on."""
    digest = hashlib.sha256(f"{sys.version}{lock.name}".encode())
    for path in (LOCK, DEV_LOCK, ROOT / "pyproject.toml"):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def make_venv() -> None:
    """Create `.venv`; remove it again if that fails."""
    if any(importlib.util.find_spec(module) is None for module in ("venv", "ensurepip")):
        sys.exit("This Python lacks the venv module. On Debian or Ubuntu: apt install python3-venv")
    print("Creating .venv", flush=True)
    if call([sys.executable, "-m", "venv", str(VENV)]):
        shutil.rmtree(VENV, ignore_errors=True)
        sys.exit("Could not create .venv; see the output above.")


def is_installed(lock: Path) -> bool:
    """Return whether the current version of a lock is installed in `.venv`."""
    if not STAMP.exists():
        return False
    return STAMP.read_text(encoding="utf-8") in {fingerprint(lock), fingerprint(DEV_LOCK)}


def install(lock: Path = DEV_LOCK, *, force: bool = False) -> int:
    """Install a lock into `.venv` unless it is installed; DEV_LOCK includes LOCK."""
    if not PYTHON.exists():
        make_venv()
    elif not force and is_installed(lock):
        return 0
    pip = [str(PYTHON), "-m", "pip", "install"]
    install_lock([*pip, "--progress-bar=off", "--require-hashes", "-r", str(lock)], lock)
    if call([*pip, "-qq", "--no-deps", "--no-build-isolation", "-e", str(ROOT)]):
        sys.exit("Could not install Lorewell itself; see pip's output above.")
    STAMP.write_text(fingerprint(lock), encoding="utf-8")
    return 0


def install_lock(command: list[str], lock: Path) -> None:
    """Run pip on a lock and show the progress; print pip's output only if it fails."""
    total = len(re.findall(r"^[^\s#]+==", lock.read_text(encoding="utf-8"), re.MULTILINE))
    print(f"Installing {total} packages from {lock.name} (only once).", flush=True)
    begin, found, lines = time.monotonic(), 0, []
    with subprocess.Popen(
        command,
        cwd=ROOT,
        env=environment(),
        text=True,
        encoding="utf-8",
        errors="replace",
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    ) as pip:
        for line in pip.stdout or ():
            lines.append(line)
            found += line.startswith(FOUND)
            stage = "Unpacking" if line.startswith(UNPACKING) else "Fetching"
            if sys.stdout.isatty() and line.startswith((*FOUND, UNPACKING)):
                seconds = time.monotonic() - begin
                print(f"\r{stage}: {found} of {total}, {seconds:.0f} s ", end="", flush=True)
    if sys.stdout.isatty():
        print()
    if pip.returncode:
        sys.exit("".join(lines[-20:]) + f"Could not install {lock.name}; see pip's output above.")
    print(f"Installed {found} packages in {time.monotonic() - begin:.0f} s.", flush=True)


def install_browser() -> None:
    """Install Chromium and a Chinese font if there is no browser; only as root on Debian.

    Otherwise, or if this fails, the browser tests report what is missing.
    """
    if "LOREWELL_TEST_CHROMIUM" in os.environ or any(map(shutil.which, BROWSERS)):
        return
    if not shutil.which("apt-get") or os.geteuid():
        return
    print("Installing Chromium and a Chinese font for the browser tests", flush=True)
    packages = ["install", "-y", "--no-install-recommends", "chromium", "fonts-wqy-zenhei"]
    for pause in APT_PAUSES_S:
        time.sleep(pause)
        if not call([*APT, "update"]) and not call(
            [*APT, *packages], stdout=subprocess.DEVNULL, DEBIAN_FRONTEND="noninteractive"
        ):
            return
    print("Could not install them; see apt-get's output above.", flush=True)


def run(args: list[str]) -> int:
    """Start the service with the sample books, or run `lorewell` with the given arguments."""
    command = tool("lorewell", *(args or SERVE))
    if not args:
        os.chdir(ROOT)
    if os.name != "nt":  # replaces this process, so that signals reach the service
        os.execve(command[0], command, environment())  # noqa: S606
    return call(command, cwd=None)


def check() -> int:
    """Run all static checks, and list the ones that failed."""
    failed = []
    for command in CHECKS:
        print(f"== {' '.join(command)}", flush=True)
        if call(tool(*command)):
            failed.append(" ".join(command))
    if failed:
        print(f"Failed: {', '.join(failed)}", flush=True)
    return 1 if failed else 0


def test(args: list[str]) -> int:
    """Run the checks and all tests, or only pytest with the given arguments.

    `--fast` runs only the tests of modules, properties and golden cases, without measures of time
    and with a quarter of the examples of each property. It passes further arguments to pytest.
    """
    if args[:1] == ["--fast"]:
        fast = tool("pytest", *PARALLEL, *args[1:], *FAST)
        return call(fast, LOREWELL_HYPOTHESIS="fast", **KEEP_BYTECODE)
    if args:
        return call(tool("pytest", *args))
    install_browser()
    # Tests wait for servers at times; the checks run meanwhile, and take time from no test.
    with tempfile.TemporaryFile("w+", encoding="utf-8") as report:
        command = [*polite(), sys.executable, __file__, "check"]
        checks = subprocess.Popen(
            command, cwd=ROOT, env=environment(), stdout=report, stderr=report
        )
        print("== pytest", flush=True)
        tested = call(tool("pytest", *PARALLEL), **KEEP_BYTECODE)
        checked = checks.wait()
        report.seek(0)
        print(report.read(), flush=True)
    return tested or checked


def deep(args: list[str]) -> int:
    """Run all or the given long campaigns one after the other, and list the ones that failed."""
    unknown = [name for name in args if name not in CAMPAIGNS]
    if unknown:
        sys.exit(f"Unknown campaign: {', '.join(unknown)}. Known: {', '.join(CAMPAIGNS)}.")
    failed = []
    for name in args or CAMPAIGNS:
        about, options = CAMPAIGNS[name]
        print(f"\n== deep {name}: {about}", flush=True)
        if call(tool("pytest", *options), LOREWELL_HYPOTHESIS="deep"):
            failed.append(name)
    print(f"\nFailed: {', '.join(failed)}" if failed else "\nAll campaigns passed.", flush=True)
    return 1 if failed else 0


def bench(args: list[str]) -> int:
    """Compare the engine with a naive keyword scan, from any working directory."""
    return call([str(PYTHON), "-P", "-m", "bench", *args], cwd=None, PYTHONPATH=str(ROOT))


def lock() -> int:
    """Resolve the dependencies of pyproject.toml; both locks get the same versions."""
    options = "--universal --python-version 3.11 --generate-hashes --no-header --quiet"
    compile_ = tool("uv", "pip", "compile", *options.split(), "pyproject.toml")
    everything = ["--group", "dev", "--all-extras", "-o", DEV_LOCK.name]
    service = ["--group", "build", "-c", DEV_LOCK.name, "-o", LOCK.name]
    return call([*compile_, *everything]) or call([*compile_, *service])


COMMANDS: dict[str, tuple[str, Callable[[list[str]], int]]] = {
    "run": ("start the service with two sample books; `run ARGS` runs `lorewell ARGS`", run),
    "test": (
        "run all checks and tests; `test --fast` runs a part, `test ARGS` runs `pytest ARGS`",
        test,
    ),
    "check": (
        "check lint, format, types, layers, dependencies, dead code, spelling",
        lambda _: check(),
    ),
    "install": (
        "create .venv and install everything for development",
        lambda _: install(force=True),
    ),
    "bench": (
        "compare speed and memory with a naive keyword scan; `--quick`, `--json FILE`",
        bench,
    ),
    "lock": ("resolve both locks", lambda _: lock()),
    "deep": (f"run long campaigns, all or the named: {', '.join(CAMPAIGNS)}", deep),
}


def main(argv: list[str]) -> int:
    """Run one command and return its exit code; 2 if it is unknown."""
    name, args = (argv[0], argv[1:]) if argv else ("help", [])
    if name not in COMMANDS:
        print("python3 dev.py COMMAND [ARGS]\n")
        for command, (about, _) in COMMANDS.items():
            print(f"  {command:8} {about}")
        return 0 if name in {"-h", "--help", "help"} else 2
    if args and name not in {"run", "test", "bench", "deep"}:
        sys.exit(f"dev.py {name} takes no arguments")
    if name != "install":
        install(LOCK if name == "run" else DEV_LOCK)
    return COMMANDS[name][1](args)


if __name__ == "__main__":
    if sys.version_info < (3, 11):
        sys.exit("Lorewell needs Python 3.11 or newer; this is " + sys.version.split()[0])
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)
