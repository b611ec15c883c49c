"""http/dynamics.jsonl by editing resource files."""

import pytest
from dynamics_steps import ENTRIES, RECORDS, SKIPPED, SKIPS, STEPS, Stage, run_steps
from support.slots import Slot


@pytest.mark.parametrize("name", sorted(set(RECORDS) - SKIPPED))
def test_dynamics(name, tmp_path):
    slot = Slot(one_digit=True)
    try:
        run_steps(Stage(name, slot), tmp_path)
    finally:
        slot.release()


def test_every_record_has_its_steps():
    assert set(STEPS) == set(RECORDS) - SKIPPED
    assert set(ENTRIES) <= set(STEPS)
    for skip in SKIPS:
        assert set(skip["ids"]) <= set(RECORDS)
