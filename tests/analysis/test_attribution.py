from dataclasses import replace
from math import isclose, log

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roofline.analysis.attribution import CAUSES, attribute, differences, shapley
from roofline.analysis.hardware import Hardware

A = Hardware(
    name="a", sm_count=80, clock_hz=1.5e9, base_share=0.8, consumer=False, dram_bytes_per_s=800e9, dram_measured=False,
    ecc=False, l2_bytes=6e6, l2_bytes_per_clock=16, l2_measured=False, fp32_per_clock=256, pipe_per_clock={}, tile=128,
    memory_bytes=None,
)  # fmt: skip


def test_shapley_of_an_additive_game_is_each_players_own_value():
    # Without interaction every order gives a player the same: its own value.
    values = {"x": 3.0, "y": -1.0, "z": 0.5}
    assert shapley(tuple(values), lambda taken: sum(values[p] for p in taken)) == pytest.approx(values)


def test_shapley_shares_an_interaction_evenly():
    # Worth 1 only together: each of two players is last in half of the orders, so gets 1/2.
    assert shapley(("x", "y"), lambda taken: float(len(taken) == 2)) == {"x": 0.5, "y": 0.5}


@given(st.lists(st.floats(-5, 5), min_size=16, max_size=16))
def test_shapley_adds_up_for_any_game(worth):
    # Efficiency: shares sum to value(all) - value(none), whatever the values in between.
    players = ("p", "q", "r", "s")

    def value(taken):
        return worth[sum(1 << players.index(p) for p in taken)]

    assert isclose(sum(shapley(players, value).values()), worth[15] - worth[0], abs_tol=1e-9)


def test_causes_add_up_and_name_only_what_differs():
    b = replace(A, dram_bytes_per_s=400e9, sm_count=160)

    def seconds(machine):
        return 1e12 / machine.dram_bytes_per_s + 1e13 / (machine.sm_count * machine.clock_hz)

    causes = attribute(A, b, seconds)
    assert set(causes) == {"DRAM bandwidth", "SM count"}
    assert sum(causes.values()) == pytest.approx(log(seconds(b) / seconds(A)), abs=1e-12)
    assert causes["DRAM bandwidth"] > 0 > causes["SM count"]


def test_equal_machines_have_no_differences():
    assert differences(A, replace(A, name="other", memory_bytes=1)) == {}
    assert attribute(A, A, lambda machine: 1.0) == {}


def test_every_attribute_that_decides_belongs_to_one_cause():
    described = {"name", "memory_bytes", "sources"}
    fields = [field for group in CAUSES.values() for field in group]
    assert sorted(fields) == sorted(set(Hardware.__dataclass_fields__) - described)
