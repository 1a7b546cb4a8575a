from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from experiments.bench_results import cell, settings
from matplotlib.image import imread

from infuser.errors import InputError
from infuser.experiments.bench_table import BenchTable
from infuser.experiments.summary import summarise
from infuser.experiments.sweeps import ablation_of, sweep_of
from infuser.reports.bench_plots import draw_plot, plot_label, write_png
from infuser.reports.figures import to_svg

SHARES = {
    "plain": 0.6,
    "kam": 0.8,
    "kam alpha=0.4": 0.7,
    "kam alpha=0.1": 0.72,
    "kam without pmi": 0.65,
    "kam without convolution": 0.8,
}


@pytest.fixture(scope="module")
def table() -> BenchTable:
    cells = [cell(name, "cola", seed, share_right=share) for name, share in SHARES.items() for seed in range(3)]
    return summarise(settings(task={"cola": {}}, method={"plain": {}}), cells, rounds=100)


def test_a_sweep_is_in_the_order_of_its_values_with_the_baseline(table: BenchTable) -> None:
    sweep = sweep_of(table, "kam", "alpha")
    [spots] = sweep.spots.values()
    assert list(sweep.spots) == ["cola, matthews"] and [spot.value for spot in spots] == [0.1, 0.4]
    assert spots[0].mean == table.row("kam alpha=0.1").entries[0].first.mean
    assert sweep.levels["cola, matthews"] == table.row("plain").entries[0].first.mean


def test_a_sweep_is_drawn_with_its_band_and_a_line_for_the_baseline(table: BenchTable) -> None:
    sweep = sweep_of(table, "kam", "alpha")
    drawn = to_svg(draw_plot(sweep), plot_label(sweep))
    titles = re.findall(r"<title>(alpha [^<]*)</title>", drawn)
    assert drawn.count("<svg") == 1 and drawn.count("stroke-dasharray") == 1 and "plain" in drawn
    assert [title[:11] for title in titles] == ["alpha 0.1: ", "alpha 0.4: "]
    assert len(re.findall(r'opacity="0\.2"', drawn)) == 1  # the band
    heights = [float(y) for y in re.findall(r"<title>alpha .*?translate\([\d.]+ ([\d.]+)\)", drawn)]
    means = [spot.mean for spot in sweep_of(table, "kam", "alpha").spots["cola, matthews"]]
    assert (heights[0] < heights[1]) == (means[0] > means[1])  # higher up is better


def test_an_ablation_is_the_difference_to_the_whole_method(table: BenchTable) -> None:
    marks = ablation_of(table, "kam").losses["cola, matthews"]
    assert [name for name, _, _ in marks] == ["without pmi", "without convolution"]
    whole, part = (table.row(name).entries[0].first.per_seed for name in ("kam", "kam without pmi"))
    assert marks[0][1] == pytest.approx(np.mean(np.subtract(part, whole))) and marks[0][1] < -0.1
    assert marks[0][2] is not None and marks[0][2][1] < 0
    drawn = to_svg(draw_plot(ablation_of(table, "kam")), "kam without one part")
    assert drawn.count("without") >= 5  # the label, two marks, two of the legend
    assert drawn.count("translate(") == 4


def test_pictures_are_written_whole(table: BenchTable, tmp_path: Path) -> None:
    for name, plot in (("sweep", sweep_of(table, "kam", "alpha")), ("ablation", ablation_of(table, "kam"))):
        picture = imread(write_png(plot, tmp_path / f"{name}.png"))
        assert min(picture.shape[:2]) > 200 and np.ptp(picture[..., :3]) > 0.5
    assert sorted(path.name for path in tmp_path.iterdir()) == ["ablation.png", "sweep.png"]
    with pytest.raises(InputError, match=r"let it end in \.png"):
        write_png(plot, tmp_path / "plot.jpg")


def test_what_is_not_there_cannot_be_drawn(table: BenchTable) -> None:
    with pytest.raises(InputError, match="No row kam beta=VALUE of host 'minilm' has a result yet"):
        sweep_of(table, "kam", "beta")
    with pytest.raises(InputError, match="No row placebo"):
        ablation_of(summarise(settings(), [cell("placebo", "cola", 0)], rounds=100), "placebo")
    words = summarise(settings(), [cell("kam start=random", "cola", 0)], rounds=100)
    with pytest.raises(InputError, match="has no number as its setting"):
        sweep_of(words, "kam", "start")
