from dataclasses import replace
from math import exp, log

import programs
import pytest

import roofline
from roofline.analysis.compare import compare
from roofline.analysis.software import Software
from roofline.errors import UsageError
from roofline.machine.catalog import machine

A, B = (machine(name, prefer="datasheet") for name in ("RTX 3090", "A40"))
BYTES = programs.program(*(programs.pointwise(i, read=2 * i, write=2 * i + 1) for i in range(3)), name="bytes")
PRODUCTS = programs.program(*(programs.product(i, storage=3 * i) for i in range(3)), name="products")
BOTH = programs.program(
    *(programs.product(i, storage=3 * i) for i in range(2)), *(programs.pointwise(i) for i in range(2, 8)), name="both"
)


def test_public_names():
    assert roofline.compare is compare


@pytest.mark.parametrize("trace", [BYTES, PRODUCTS, BOTH], ids=lambda trace: trace.name)
def test_causes_layers_and_kinds_each_add_up_to_the_log_ratio(trace):
    found = compare(trace, A, B)
    for shares in (found.causes, found.layers, found.kinds):
        assert sum(shares.values()) == pytest.approx(log(found.ratio), abs=1e-9)


def test_bytes_favour_the_3090_and_products_the_a40():
    # 936 GB/s against 696 GB/s with ECC; 512 tensor flops per clock and SM against 1024.
    assert compare(BYTES, A, B).ratio > 1.3
    assert compare(PRODUCTS, A, B).ratio < 0.8
    found = compare(BOTH, A, B)
    assert found.causes["DRAM bandwidth"] > 0 > found.causes["tensor rate per SM and clock"]


def test_a_pure_stream_is_explained_by_bandwidth_and_ecc_alone():
    found = compare(BYTES, A, B, software=Software(host_s=0.0))
    decided = {name for name, share in found.causes.items() if abs(share) > 1e-3}
    assert decided == {"DRAM bandwidth", "ECC in the DRAM"}
    assert found.causes["DRAM bandwidth"] == pytest.approx(log(936.2 / 696), rel=0.02)


def test_swapping_the_machines_swaps_every_sign():
    one, other = compare(BOTH, A, B), compare(BOTH, B, A)
    assert other.ratio == pytest.approx(1 / one.ratio)
    assert {n: -s for n, s in other.causes.items()} == pytest.approx(dict(one.causes), abs=1e-9)


def test_a_machine_against_itself_has_no_causes():
    found = compare(BOTH, A, A)
    assert found.ratio == 1 and not found.causes
    assert all(share == 0 for share in found.layers.values())


def test_waiting_for_the_host_is_a_layer_of_its_own():
    found = compare(BOTH, A, B, software=Software(host_s=0.01))
    assert found.ratio == pytest.approx(1)
    assert "(waiting for the host)" in found.layers
    assert sum(found.layers.values()) == pytest.approx(0, abs=1e-9)


def test_the_unexplained_part_closes_the_gap_to_what_was_observed():
    found = compare(BOTH, A, B, observed_a=1.0, observed_b=1.5)
    assert found.observed_ratio == 1.5
    assert sum(found.causes.values()) + found.unexplained == pytest.approx(log(1.5), abs=1e-9)


@pytest.mark.parametrize("observed", [(1.0, None), (None, 1.0), (0.0, 1.0), (1.0, -2.0)])
def test_observations_come_in_positive_pairs(observed):
    with pytest.raises(UsageError, match="observed"):
        compare(BOTH, A, B, observed_a=observed[0], observed_b=observed[1])


def test_the_layer_mix_at_which_the_winner_changes():
    found = compare(BOTH, A, B)
    products, rest, even = found.mix
    assert products < 1 < rest and 0 < even < 1
    # At that share of a's time, b's time is share x products + (1 - share) x rest = 1: a draw.
    assert even * products + (1 - even) * rest == pytest.approx(1)
    assert compare(BYTES, A, B).mix[2] is None


def test_alternatives_and_ecc_show_where_the_winner_changes():
    found = compare(BYTES, A, B, alternatives={"products": PRODUCTS})
    assert {v.label for v in found.variants} == {"products", "ECC off on A40"}
    assert [v.label for v in found.crossovers] == ["products"]
    known = replace(B, device=replace(B.device, ecc=False))
    assert not compare(BYTES, A, known).variants


def test_the_text_names_both_machines_and_every_claim_has_its_number():
    found = compare(BOTH, A, B, observed_a=1.0, observed_b=1.2, alternatives={"bytes": BYTES})
    text = found.text
    assert "RTX 3090" in text and "A40" in text
    assert "ECC" in text and "Assumed for the A40" in text
    share = found.causes["DRAM bandwidth"]
    assert f"DRAM bandwidth ({100 * (exp(share) - 1):+.1f} %)" in text
    assert "unexplained" in text


def test_the_intervals_of_both_predictions_add_in_quadrature():
    found = compare(BOTH, A, B)
    low, high = found.interval
    half = log(found.a.high_s / found.a.seconds)
    assert (log(high / found.ratio), log(found.ratio / low)) == pytest.approx((half * 2**0.5, half * 2**0.5))
