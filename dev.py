"""Commands for working on Lorewell: `python3 dev.py` lists them. Needs Python alone."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parent
VENV = ROOT / ".venv"
BIN = VENV / ("Scripts" if os.name == "nt" else "bin")
PYTHON = BIN / ("python.exe" if os.name == "nt" else "python")
LOCK = ROOT / "requirements.lock"  # what runs the service
DEV_LOCK = ROOT / "requirements-dev.lock"  # that, the extras, and all that checks and tests
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
APT_PAUSES_S = (0, 10, 30)  # before each attempt: the list of packages knows no waiting

# Neighbours share a server, so each worker has a run of them, and takes from another one at last.
PARALLEL = ["-n", "auto", "--dist", "worksteal"]
# Hundreds of processes import the package; what is compiled once is kept in any case.
KEEP_BYTECODE = {"PYTHONDONTWRITEBYTECODE": ""}
FAST = [
    *("tests/unit", "tests/property", "tests/golden"),
    *("--ignore=tests/property/test_import_scaling.py", "--ignore=tests/unit/test_compile_cost.py"),
    *(f"--ignore=tests/golden/test_{name}.py" for name in ("conformance", "limits", "sealed")),
]

ORACLE = "tests/property/test_sillytavern_oracle.py"
CAMPAIGNS = {
    "properties": (
        "thousands of examples a property",
        ["-n", "auto", "tests/property", f"--ignore={ORACLE}"],
    ),
    "oracle": ("20,000 random chats by SillyTavern's rules, twice", ["-n", "auto", ORACLE]),
    "fuzz": (
        "requests made up from the OpenAPI document",
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
        "hostile files of every reader take time in proportion",
        ["tests/deep/test_import_scaling.py"],
    ),
    "fields": ("hostile input in every field of every route", ["tests/deep/test_field_fuzz.py"]),
    "conditions": ("100,000 random condition texts", ["tests/deep/test_conditions.py"]),
    "conformance": (
        "the runner for other engines, on all cases",
        ["-n", "auto", "tests/golden/test_conformance.py"],
    ),
    "gateway": (
        "what the gateway adds, many streams, and OpenAI's package for Node",
        ["tests/deep/test_gateway.py"],
    ),
    "live": (
        "500 subscribers of the live channel and 200 selections a second",
        ["tests/deep/test_live.py"],
    ),
    "siege": ("an innocent client beside hostile ones", ["tests/deep/test_siege.py"]),
    "throughput": ("selections a second beside an empty route", ["tests/deep/test_throughput.py"]),
}


def call(
    command: list[str], *, cwd: Path | None = ROOT, stdout: int | None = None, **env: str
) -> int:
    """Run a program to its end, in UTF-8 on every system; return its exit code."""
    return subprocess.run(
        command, cwd=cwd, env=environment(**env), stdout=stdout, check=False
    ).returncode


def environment(**given: str) -> dict[str, str]:
    """Return the environment of the programs that we start."""
    return {**os.environ, "PYTHONUTF8": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1", **given}


def tool(name: str, *args: str) -> list[str]:
    """Return the command line of a program of our own environment."""
    return [str(BIN / (f"{name}.exe" if os.name == "nt" else name)), *args]


def fingerprint(lock: Path) -> str:
    """Return a hash of everything that decides what is installed from a lock."""
    digest = hashlib.sha256(f"{sys.version}{lock.name}".encode())
    for path in (LOCK, DEV_LOCK, ROOT / "pyproject.toml"):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def make_venv() -> None:
    """Make `.venv`; a half-made one does not stay."""
    if any(importlib.util.find_spec(module) is None for module in ("venv", "ensurepip")):
        sys.exit("This Python lacks the venv module. On Debian or Ubuntu: apt install python3-venv")
    print("Making .venv", flush=True)
    if call([sys.executable, "-m", "venv", str(VENV)]):
        shutil.rmtree(VENV, ignore_errors=True)
        sys.exit("Could not make .venv")


def is_installed(lock: Path) -> bool:
    """Return whether `.venv` holds a lock as it is now."""
    if not STAMP.exists():
        return False
    return STAMP.read_text(encoding="utf-8") in {fingerprint(lock), fingerprint(DEV_LOCK)}


def install(lock: Path = DEV_LOCK, *, force: bool = False) -> int:
    """Install a lock into `.venv`, unless it holds that already; DEV_LOCK includes LOCK."""
    if not PYTHON.exists():
        make_venv()
    elif not force and is_installed(lock):
        return 0
    pip = [str(PYTHON), "-m", "pip", "install"]
    install_lock([*pip, "--progress-bar=off", "--require-hashes", "-r", str(lock)], lock)
    if call([*pip, "-qq", "--no-deps", "--no-build-isolation", "-e", str(ROOT)]):
        sys.exit("Could not install Lorewell itself; pip says why above.")
    STAMP.write_text(fingerprint(lock), encoding="utf-8")
    return 0


def install_lock(command: list[str], lock: Path) -> None:
    """Run pip on a lock and show how far it is; quote pip only if it fails."""
    total = len(re.findall(r"^[^\s#]+==", lock.read_text(encoding="utf-8"), re.MULTILINE))
    print(f"Installing {total} packages from {lock.name}; this happens once.", flush=True)
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
        sys.exit("".join(lines[-20:]) + f"Could not install {lock.name}; pip says why above.")
    print(f"Installed {found} packages in {time.monotonic() - begin:.0f} s.", flush=True)


def install_browser() -> None:
    """Install Chromium and a Chinese font where there is no browser and we are root on Debian.

    Elsewhere, and if this fails, the tests that need a browser say what is missing.
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
    print("Could not install them; apt-get says why above.", flush=True)


def run(args: list[str]) -> int:
    """Start the service on the sample books, or run `lorewell` with the arguments given."""
    command = tool("lorewell", *(args or SERVE))
    if not args:
        os.chdir(ROOT)
    if os.name != "nt":  # in place of this process, so that signals reach the service
        os.execve(command[0], command, environment())  # noqa: S606
    return call(command, cwd=None)


def check() -> int:
    """Run all static checks, to the last one; say which failed."""
    failed = []
    for command in CHECKS:
        print(f"== {' '.join(command)}", flush=True)
        if call(tool(*command)):
            failed.append(" ".join(command))
    if failed:
        print(f"Failed: {', '.join(failed)}", flush=True)
    return 1 if failed else 0


def test(args: list[str]) -> int:
    """Run the checks and all tests, or pytest alone with the arguments given.

    `--fast` runs the tests of modules and cases in a minute: no services, no programs, no measures
    of time, and a quarter of the examples of each property. More arguments go to pytest.
    """
    if args[:1] == ["--fast"]:
        fast = tool("pytest", *PARALLEL, *args[1:], *FAST)
        return call(fast, LOREWELL_HYPOTHESIS="fast", **KEEP_BYTECODE)
    if args:
        return call(tool("pytest", *args))
    checked = check()
    install_browser()
    print("== pytest", flush=True)
    return call(tool("pytest", *PARALLEL), **KEEP_BYTECODE) or checked


def deep(args: list[str]) -> int:
    """Run the long campaigns one after the other, or those named; say which failed."""
    unknown = [name for name in args if name not in CAMPAIGNS]
    if unknown:
        sys.exit(f"There is no {', '.join(unknown)}; there are {', '.join(CAMPAIGNS)}.")
    failed = []
    for name in args or CAMPAIGNS:
        about, options = CAMPAIGNS[name]
        print(f"\n== deep {name}: {about}", flush=True)
        if call(tool("pytest", *options), LOREWELL_HYPOTHESIS="deep"):
            failed.append(name)
    print(f"\nFailed: {', '.join(failed)}" if failed else "\nAll went well.", flush=True)
    return 1 if failed else 0


def bench(args: list[str]) -> int:
    """Time the engine beside a naive keyword scan, from wherever we are."""
    return call([str(PYTHON), "-P", "-m", "bench", *args], cwd=None, PYTHONPATH=str(ROOT))


def lock() -> int:
    """Resolve the dependencies of pyproject.toml anew; both locks name the same versions."""
    options = "--universal --python-version 3.11 --generate-hashes --no-header --quiet"
    compile_ = tool("uv", "pip", "compile", *options.split(), "pyproject.toml")
    everything = ["--group", "dev", "--all-extras", "-o", DEV_LOCK.name]
    service = ["--group", "build", "-c", DEV_LOCK.name, "-o", LOCK.name]
    return call([*compile_, *everything]) or call([*compile_, *service])


COMMANDS: dict[str, tuple[str, Callable[[list[str]], int]]] = {
    "run": ("the service with two sample books, or `run ARGS` for `lorewell ARGS`", run),
    "test": (
        "all checks and all tests; `test --fast` for a minute's, `test ARGS` for `pytest ARGS`",
        test,
    ),
    "check": ("lint, format, types, layers, dependencies, dead code, spelling", lambda _: check()),
    "install": ("make .venv and install all that developing needs", lambda _: install(force=True)),
    "bench": (
        "speed and memory beside a naive keyword scan; `bench --quick`, `--json FILE`",
        bench,
    ),
    "lock": ("resolve both locks anew", lambda _: lock()),
    "deep": (f"long campaigns, all or those named: {', '.join(CAMPAIGNS)}", deep),
}


def main(argv: list[str]) -> int:
    """Run one command and return its exit code; 2 for an unknown one."""
    name, args = (argv[0], argv[1:]) if argv else ("help", [])
    if name not in COMMANDS:
        print("python3 dev.py COMMAND [ARGS]\n")
        for command, (about, _) in COMMANDS.items():
            print(f"  {command:8} {about}")
        return 0 if name in {"-h", "--help", "help"} else 2
    if args and name not in {"run", "test", "bench", "deep"}:
        sys.exit(f"{name} takes no arguments")
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
