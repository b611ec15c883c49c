"""tools/bench/compare.py: what counts as a change, and what a run that lacks something looks like."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools" / "bench"))
import compare  # noqa: E402


def row(key, higher=False, **by):
    return {"key": key, "title": key, "unit": "µs", "higher": higher,
            "by": {who: {"samples": samples} for who, samples in by.items()}}


def verdicts(before, after):
    return {(line[0], line[1]): line[-1] for line in compare.compare({"rows": before}, {"rows": after})}


def test_overlapping_ranges_are_no_change():
    assert verdicts([row("a", warmroute=[10, 11, 12])], [row("a", warmroute=[11.9, 14, 15])]) == {("a", "warmroute"): ""}


def test_a_rise_beyond_the_spread_is_worse_and_a_fall_better():
    low, high = row("a", warmroute=[10, 11, 12]), row("a", warmroute=[13, 14, 15])
    assert verdicts([low], [high]) == {("a", "warmroute"): "WORSE"}
    assert verdicts([high], [low]) == {("a", "warmroute"): "better"}


def test_a_single_sample_is_taken_for_ten_per_cent_wide():
    assert verdicts([row("a", warmroute=[100])], [row("a", warmroute=[119])])[("a", "warmroute")] == ""
    assert verdicts([row("a", warmroute=[100])], [row("a", warmroute=[125])])[("a", "warmroute")] == "WORSE"


def test_a_difference_below_zero_has_no_change_in_per_cent():
    line = compare.compare({"rows": [row("a", warmroute=[-5, -4])]}, {"rows": [row("a", warmroute=[3, 4])]})[0]
    assert line[5] is None and line[-1] == "WORSE"


def test_throughput_is_better_when_it_rises():
    low, high = row("a", higher=True, warmroute=[100, 110]), row("a", higher=True, warmroute=[200, 210])
    assert verdicts([low], [high]) == {("a", "warmroute"): "better"}


def test_a_slower_machine_is_no_change_where_nginx_tells():
    quiet = row("a", warmroute=[10, 11, 12], nginx=[10, 11, 12])
    busy = row("a", warmroute=[30, 33, 36.3], nginx=[30, 33, 36])
    assert verdicts([quiet], [busy])[("a", "warmroute")] == ""
    assert verdicts([quiet], [busy])[("a", "nginx")] == "WORSE"


def test_figures_are_compared_where_nginx_was_there_only_once():
    line = compare.compare({"rows": [row("a", warmroute=[10, 10], nginx=[20, 20])]},
                           {"rows": [row("a", warmroute=[15, 15])]})[0]
    assert line[2:6] == (10, 15, "µs", 50.0)


def test_rows_and_proxies_of_one_run_only_are_named():
    assert verdicts([row("old", warmroute=[1])], [row("fresh", warmroute=[1])]) == {("fresh", ""): "new", ("old", ""): "gone"}
    assert verdicts([row("a", warmroute=[1])], [row("a", warmroute=[1], haproxy=[1])])[("a", "haproxy")] == "new"
