"""`infuser export`: a saved model as an ONNX graph that answers without torch."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from infuser.cli.console import loading, print_fields, print_next_steps
from infuser.cli.knowledge_options import SourceOptions
from infuser.cli.options import TextColumnOptions, argument, option, option_groups
from infuser.files import check_writable

if TYPE_CHECKING:
    from infuser.exporting import ExportReport

_MOST_TEXTS = 1000


@option_groups
def export(
    model: Annotated[str, argument("A run or model that `infuser train` wrote.", metavar="RUN_OR_MODEL")],
    out: Annotated[Path, option("Folder to write.")],
    int8: Annotated[bool, option("Quantise matrices to 8 bits: a smaller, faster graph.", "--int8")] = False,
    portable: Annotated[
        bool, option("Take graphs and lists along, so that the folder works on another machine.", "--portable")
    ] = False,
    data: Annotated[
        Path | None, option(f"Texts on which the answers are compared, at most {_MOST_TEXTS:,} of them.")
    ] = None,
    *,
    columns: TextColumnOptions,
    sources: SourceOptions,
) -> None:
    """Export a model as an ONNX graph that reads knowledge.

    The folder holds graph, tokenizer, sources and labels. It answers with
    onnxruntime, tokenizers and NumPy alone: infuser.runtime.load(DIR), or
    infuser predict DIR. The answers are compared with the model's own before
    the folder appears.

    Examples:
      infuser export runs/mine --out exported
      infuser export runs/mine --out small --int8 --data dev.csv
    """
    check_writable(out.parent, "--out")
    named = sources.read()
    examples: list[dict[str, Any]] = []
    if data is not None:
        from infuser.tables.examples import read_examples

        examples = [example for _, example in islice(read_examples(data, columns.columns()), _MOST_TEXTS)]
    with loading("the model") as progress:
        from infuser.experiments.run_folder import find_model
        from infuser.exporting import export_parts
        from infuser.opening import open_infused

        infused = open_infused(find_model(model), named, progress=progress)
        progress("Tracing the graph, which takes a minute or so", 0, 0)
        report = export_parts(
            out,
            infused.model,
            infused.collator(),
            infused.method,
            int8=int8,
            portable=portable,
            examples=examples,
        )
    _print_report(out, report)


def _print_report(out: Path, report: ExportReport) -> None:
    fields = {
        "graph": f"{report.n_bytes / 1e6:,.1f} MB",
        "texts compared": report.n_texts,
        "largest difference": f"{report.difference:.1e} in a raw answer (float32)",
    }
    if report.int8_difference is not None:
        fields["int8"] = f"differs by up to {report.int8_difference:.3f}; {report.int8_agrees:.1%} of answers agree"
    print_fields(fields, title=f"Exported to {out}")
    print_next_steps([f'infuser predict {out} --text "..."'])
