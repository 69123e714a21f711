from dataclasses import replace
from math import exp, hypot

import programs
import pytest

import roofline
from roofline.analysis.constants import FileError, load, save, shipped
from roofline.analysis.predict import ASSUMED_LOG_ERROR, Model, predict
from roofline.analysis.software import Software
from roofline.errors import MissingCeiling, UsageError
from roofline.machine.catalog import machine
from roofline.machine.specs import datasheet_machine, rows

CALLS = (
    programs.convolution(0), programs.product(1, storage=10), programs.pointwise(2), programs.attention(3),
    programs.call(4, "aten.empty", "other", [], []),
)  # fmt: skip
TRACE = programs.program(*CALLS, weight_bytes=10**9, peak_activation_bytes=2 * 10**9)
A40 = machine("A40", prefer="datasheet")


def test_public_names():
    assert roofline.predict is predict


def test_terms_calls_and_layers_add_up_to_the_seconds():
    found = predict(TRACE, A40)
    assert sum(found.terms.values()) == pytest.approx(found.seconds, rel=1e-12)
    device = sum(call.seconds for call in found.calls)
    assert device + found.waiting_s == pytest.approx(found.seconds, rel=1e-12)
    assert sum(found.by_layer().values()) == pytest.approx(device)
    assert sum(found.by_kind().values()) == pytest.approx(device)
    assert found.by_module()[""] == pytest.approx(device)
    for call in found.calls:
        assert sum(call.terms.values()) == pytest.approx(call.seconds)


def test_a_program_that_the_host_limits_waits_for_it():
    small = programs.program(*(programs.pointwise(i, 1024, 2 * i, 2 * i + 1) for i in range(10)))
    found = predict(small, A40, software=Software(host_s=1e-3))
    assert found.seconds == pytest.approx(10e-3)
    assert found.bound == "host" and found.waiting_s > 9e-3
    assert predict(small, A40, software=Software(host_s=0.0)).waiting_s == 0


def test_the_interval_is_the_cross_validated_one_and_widens_with_every_assumption():
    found = predict(TRACE, A40)
    half = shipped().log_error
    assert found.high_s / found.seconds == pytest.approx(exp(half))
    assert found.seconds / found.low_s == pytest.approx(exp(half))
    unknown = replace(A40, device=replace(A40.device, l2_bytes=None, base_clock_hz=None))
    wider = predict(TRACE, unknown)
    assert wider.high_s / wider.seconds == pytest.approx(exp(hypot(half, ASSUMED_LOG_ERROR * 2**0.5)))
    assert {text.split()[0] for text in wider.assumptions} == {"ecc", "l2_bytes", "base_share"}


def test_training_has_the_wider_interval():
    backward = programs.pointwise(5, phase="backward")
    found = predict(programs.program(*CALLS, backward), A40)
    assert found.high_s / found.seconds == pytest.approx(exp(shipped().host_log_error))


def test_memory_is_weights_and_activations_and_too_much_is_said():
    found = predict(TRACE, A40)
    assert (found.memory_bytes, found.fits, found.warnings) == (3 * 10**9, True, ())
    large = predict(replace(TRACE, peak_activation_bytes=10**12), A40)
    assert large.fits is False
    assert "it will not run there" in large.warnings[0]


def test_uncounted_ops_are_named():
    odd = programs.call(0, "mylib.op", "other", [programs.Access(0, 100)], [programs.Access(1, 100)], counted=False)
    assert "mylib.op" in predict(programs.program(odd), A40).warnings[0]


def test_ecc_is_a_parameter():
    trace = programs.program(programs.pointwise())
    on, off = (predict(trace, A40, software=Software(ecc=ecc, host_s=0.0)).seconds for ecc in (True, False))
    kernel = shipped().values.kernel_s
    assert (off - kernel) / (on - kernel) == pytest.approx(shipped().values.ecc_bandwidth)


def test_what_cannot_be_predicted_is_refused():
    with pytest.raises(UsageError, match="nothing to predict"):
        predict(programs.program(), A40)
    with pytest.raises(UsageError, match="target='cuda'"):
        predict(replace(TRACE, target="cpu"), A40)
    with pytest.raises(MissingCeiling, match="dram_read"):
        predict(TRACE, replace(A40, ceilings=tuple(c for c in A40.ceilings if not c.name.startswith("dram"))))


def test_every_gpu_of_the_table_gives_a_sane_time():
    # About 2 TFLOP and 2 GB: no GPU since 2014 takes less than a millisecond or more than a few seconds.
    model, refused = Model(TRACE), []
    for row in rows():
        try:
            found = model.on(datasheet_machine(row))
        except MissingCeiling:
            refused.append(row.name)
            continue
        assert 1e-3 < found.seconds < 3, row.name
        assert 1 < found.high_s / found.low_s < 4, row.name
    assert refused == ["H20"]  # no clock, no SM count, no bandwidth is published


def test_calibration_files_round_trip_and_damage_is_said(tmp_path):
    path = tmp_path / "constants.json"
    save(shipped(), path)
    assert load(path) == shipped()
    path.write_text(path.read_text().replace('"overlap"', '"overlop"'))
    with pytest.raises(FileError, match="make calibrate"):
        load(path)


def test_every_constant_has_a_physical_value_and_a_source():
    for constant in shipped().constants:
        assert constant.value > 0 and constant.spread >= 0
        assert constant.meaning and constant.source and constant.unit
        if constant.name.endswith(("efficiency", "share")) or constant.name == "ecc_bandwidth":
            assert constant.value <= 1, constant.name
