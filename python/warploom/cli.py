"""The command ``warploom``."""

from __future__ import annotations

import contextlib
import difflib
import functools
import importlib
import importlib.metadata
import json
import os
import platform
import signal
import sys
from typing import Any

import click
import scipy.sparse

import warploom
from warploom import _core, examples, paper_models
from warploom._core import DEFAULT_BUDGET
from warploom._terminal import OutputFile, progress_bar
from warploom.errors import WarploomError
from warploom.explanation import Explanation

__all__ = ["main"]

_EXAMPLE = "example:"
_PACKAGES = ("numpy", "scipy", "torch", "cupy")


class _Failure(click.ClickException):
    """One line on standard error, exit code 2."""

    exit_code = 2


_LATER = {
    "bench": ("bench", "Measure candidates on many matrices, and summarise what was measured."),
    "calibrate": ("train", "Make a profile of your own GPU."),
    "corpus": ("corpus", "List, search and download matrices."),
    "experiment": ("experiment", "Measure what single figures of the papers need beyond sweeps."),
    "reproduce": ("reproduce", "Make the tables and figures of four papers anew."),
    "train": ("train", "Train a profile on measurements."),
}
"""Commands that are imported when they are called: their module, and what the list of commands says."""

_EXTRAS = {
    "bench": ("matplotlib", "pandas", "pyarrow"),
    "corpus": ("filelock", "platformdirs", "requests"),
    "reproduce": ("jinja2",),
    "training": ("lightgbm", "optuna", "sklearn", "torch"),
}
"""What `pip install 'warploom[EXTRA]'` brings."""


class _Group(click.Group):
    """Turns the errors a user can cause into one line; anything else is a bug and keeps its traceback."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted([*super().list_commands(ctx), *_LATER])

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _LATER:
            return super().get_command(ctx, cmd_name)
        module = importlib.import_module(f"warploom.commands.{_LATER[cmd_name][0]}")
        found: click.Command = getattr(module, cmd_name)
        return found

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            close = difflib.get_close_matches(args[0], self.list_commands(ctx), n=1)
            said = error.format_message()
            if not close or "mean" in said:  # newer versions of click ask themselves
                raise
            raise click.UsageError(f"{said} Did you mean {close[0]!r}?", ctx) from error

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        own = [(name, command.get_short_help_str(80)) for name, command in self.commands.items()]
        with formatter.section("Commands"):
            formatter.write_dl(sorted([*own, *((name, summary) for name, (_, summary) in _LATER.items())]))

    def invoke(self, ctx: click.Context) -> Any:
        try:
            result = super().invoke(ctx)
            sys.stdout.flush()
        except KeyboardInterrupt:
            click.echo("interrupted", err=True)
            raise click.exceptions.Exit(_INTERRUPTED) from None
        except BrokenPipeError:
            _discard_output()
            raise click.exceptions.Exit(_NOBODY_READS) from None
        except (WarploomError, OSError) as error:
            raise _Failure(" ".join(str(error).split())) from error
        except ImportError as error:
            raise _Failure(_what_to_install(error)) from error
        return result


_INTERRUPTED = 128 + signal.SIGINT
_NOBODY_READS = 128 + signal.SIGPIPE
"""What a shell says of programs that these signals ended."""


def _discard_output() -> None:
    """Send what is still to be written nowhere, as whoever read it is gone (as ``| head`` is)."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _what_to_install(error: ImportError) -> str:
    """Return what to say of a package that is not installed; the error itself is raised again if no extra has it."""
    said = str(error)
    if "pip install" in said:
        return said
    package = (error.name or "").partition(".")[0]
    extra = next((extra for extra, packages in _EXTRAS.items() if package in packages), None)
    if extra is None:
        raise error
    return f"this command needs {package}, which is not installed: pip install 'warploom[{extra}]'"


@click.group(cls=_Group, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(warploom.__version__, prog_name="warploom")
def main() -> None:
    """Find the fastest product of a sparse matrix with a dense one, or with a vector, on your GPU."""


# ----- warploom plan -----


@main.command()
@click.argument("file")
@click.option(
    "--op",
    type=click.Choice(["spmm", "spmv"]),
    default="spmm",
    show_default=True,
    help="Multiply a dense matrix (spmm) or a vector (spmv).",
)
@click.option("--k", default=128, show_default=True, type=click.IntRange(min=1), help="Columns of the dense matrix.")
@click.option(
    "--layout",
    type=click.Choice(["row", "column"]),
    default="row",
    show_default=True,
    help="Memory order of the dense matrices.",
)
@click.option(
    "--dtype",
    type=click.Choice(["float16", "bfloat16", "float32", "float64"]),
    help="Value type; that of the matrix by default.",
)
@click.option(
    "--precision",
    type=click.Choice(["full", "tf32"]),
    help="tf32: SpMM in float32 may round A and B to 11 significant bits, for tensor cores; full by default.",
)
@click.option("--device", metavar="cuda|cuda:N|cpu", help="Where to run; a GPU if there is one by default.")
@click.option(
    "--candidates",
    multiple=True,
    metavar="GLOB",
    help="Measure only candidates whose name matches, such as 'spmm/lpt/*'. May be repeated.",
)
@click.option("--warm/--cold", default=True, show_default=True, help="L2 cache before each measured product.")
@click.option(
    "--select",
    type=click.Choice(["measure", "predict"]),
    default="measure",
    show_default=True,
    help="Measure every candidate, or predict by the profile of the GPU.",
)
@click.option(
    "--calls",
    type=float,
    default=1000,
    show_default=True,
    help="Weigh preparation against this number of products; inf: it does not count.",
)
@click.option("--verify", is_flag=True, help="Measure a predicted choice against the vendor's.")
@click.option("--gpu", metavar="NAME", help="Predict for this GPU, which need not be present; such as H200.")
@click.option(
    "--model",
    metavar="NAME",
    help="What predicts: blend (default: trees and network), trees, network, or a paper's: "
    + ", ".join(paper_models.names())
    + ".",
)
@click.option(
    "--budget",
    type=float,
    metavar="SECONDS",
    help="Measure no longer than this, the most promising first; inf: all candidates.  "
    f"[default: {DEFAULT_BUDGET:g}, and with --select auto on a CPU a twentieth of the time of all calls]",
)
@click.option("--top", type=click.IntRange(min=1), default=10, show_default=True, help="Show so many of the fastest.")
@click.option("--all", "everything", is_flag=True, help="Show all candidates.")
@click.option("--wide", is_flag=True, help="Show all columns, however long the lines.")
@click.option("--json", "output", type=OutputFile(), help="Write all of the table as JSON too; - for stdout.")
@click.option("--csv", "csv_output", type=OutputFile(), help="Write all of the table as CSV too; - for stdout.")
@click.pass_context
def plan(
    context: click.Context,
    file: str,
    op: str,
    k: int,
    layout: str,
    dtype: str | None,
    precision: str | None,
    device: str | None,
    candidates: tuple[str, ...],
    warm: bool,
    select: str,
    calls: float,
    verify: bool,
    gpu: str | None,
    model: str | None,
    budget: float | None,
    top: int,
    everything: bool,
    wide: bool,
    output: str | None,
    csv_output: str | None,
) -> None:
    """Measure every candidate for the matrix in FILE, or predict their times, and print the table.

    FILE is a Matrix Market file (.mtx, .mtx.gz), a SciPy .npz, an archive of the SuiteSparse collection (.tar.gz),
    example:NAME for a matrix that ships with warploom (example:gr_30_30, for one), or the name of a matrix that is
    downloaded or constructed (HB/dwt_361, "rmat(scale=12)"; see warploom corpus).
    """
    if gpu is not None:
        for option in ("device", "verify", "budget", *(["select"] if select != "predict" else [])):
            if context.get_parameter_source(option) is click.core.ParameterSource.COMMANDLINE:
                raise click.UsageError(f"--gpu predicts for a GPU that need not be present; --{option} is of no use")
        if precision == "tf32":
            raise click.UsageError(
                "--gpu predicts, and no model knows candidates in TF32; --precision tf32 measures them"
            )
    if output == csv_output == "-":
        raise click.UsageError("--json - and --csv - would be mixed up")
    shown = functools.partial(
        _show, file, top=None if everything else top, wide=wide, json_file=output, csv_file=csv_output
    )
    matrix = _matrix(file)
    rows, cols = matrix.shape
    click.echo(f"{file}: {rows} x {cols}, {matrix.nnz} nonzeros", err=True)
    if gpu is not None:
        predicted = warploom.predict(
            matrix,
            op,
            k=k if op == "spmm" else None,
            dtype=dtype,
            layout=layout,
            calls=calls,
            cache="warm" if warm else "cold",
            candidates=list(candidates) or None,
            gpu=gpu,
            model=model,
        )
        shown(predicted)
        return
    if model is not None and select == "measure":
        raise click.UsageError("--model says what predicts; it goes with --select predict or --gpu")
    with progress_bar("preparing") as show:
        chosen = _plan(
            matrix,
            op=op,
            k=k if op == "spmm" else None,
            dtype=dtype,
            precision=precision,
            layout=layout,
            device=device,
            select=select,
            calls=calls,
            verify=verify,
            candidates=list(candidates) or None,
            cache="warm" if warm else "cold",
            budget=budget,
            model=model,
            progress=show,
        )
    shown(chosen.explain())


def _show(
    file: str,
    explanation: Explanation,
    *,
    top: int | None,
    wide: bool,
    json_file: str | None,
    csv_file: str | None,
) -> None:
    if "-" not in (json_file, csv_file):
        click.echo(explanation.table(top, wide=wide))
    if json_file is not None:
        with click.open_file(json_file, "w") as opened:
            json.dump({"file": file, **explanation.to_dict()}, opened, indent=2)
            opened.write("\n")
    if csv_file is not None:
        with click.open_file(csv_file, "w") as opened:
            explanation.to_csv(opened)


def _matrix(file: str) -> scipy.sparse.csr_array:
    if file.startswith(_EXAMPLE):
        return examples.load(file.removeprefix(_EXAMPLE))
    if warploom.io.ending(file) is None and not os.path.exists(file):
        from warploom import corpus

        return corpus.load(file)
    return warploom.load(file)


def _plan(*arguments: Any, **options: Any) -> Any:
    return importlib.import_module("warploom").plan(*arguments, **options)


# ----- warploom info -----


@main.command()
def info() -> None:
    """Print what was built, and which GPUs and libraries were found."""
    cuda = _cuda_info()
    lines = [
        ("warploom", warploom.__version__),
        ("Python", f"{platform.python_version()} on {platform.platform(terse=True)}"),
        ("CPU threads", str(_core.num_threads())),
        *_cuda_lines(cuda),
        ("cuSPARSE", _cusparse_version() or "not found"),
        *((package, _package_version(package) or "not installed") for package in _PACKAGES),
    ]
    for name, value in lines:
        click.echo(f"{name:<13}{value}")


def _cuda_lines(cuda: dict[str, Any]) -> list[tuple[str, str]]:
    if not cuda["built"]:
        return [("CUDA", "not built in: CPU only")]
    driver = cuda["driver_version"]
    lines = [
        ("CUDA", f"built in, {_cuda_version(cuda['runtime_version'])}, for {cuda['architectures']}"),
        ("driver", f"for CUDA {_cuda_version(driver)}" if driver else "none"),
        *((f"GPU {number}", _describe(gpu)) for number, gpu in enumerate(cuda["devices"])),
    ]
    if not cuda["devices"]:
        lines.append(("GPU", f"none: {cuda['error']}" if cuda["error"] else "none"))
    return lines


def _cuda_info() -> dict[str, Any]:
    return _core.cuda_info()


def _cusparse_version() -> str | None:
    version: str | None = importlib.import_module("warploom._device").cusparse_version()
    return version


def _describe(gpu: dict[str, Any]) -> str:
    capability = gpu["compute_capability"]
    if not isinstance(capability, str):
        capability = ".".join(map(str, capability))
    return (
        f"{gpu['name']}, compute capability {capability}, {gpu['multiprocessors']} multiprocessors, "
        f"{gpu['memory_bytes'] / 2**30:.0f} GiB, {gpu['l2_bytes'] / 2**20:.0f} MiB L2"
    )


def _cuda_version(number: int) -> str:
    return f"{number // 1000}.{number % 1000 // 10}"


def _package_version(package: str) -> str | None:
    """Look up what is installed without importing it."""
    names = importlib.metadata.packages_distributions().get(package, [])
    return importlib.metadata.version(names[0]) if names else None
