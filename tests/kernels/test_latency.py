"""Chains of pointers, followed here through this process's own memory."""

import ctypes

import pytest

from roofline.kernels import latency

CEILINGS = tuple(latency.HINTS)
KERNELS = {k.ceiling: k for k in latency.MICROKERNELS}


def chase(hops_missing=0):
    def kernel(name, options, grid, block, cursor, hops):
        assert (grid, block) == (1, 1)
        address = int(cursor)
        for _ in range(-(-int(hops) // 16) * 16 - hops_missing):
            address = ctypes.c_uint64.from_address(address).value
        cursor.fill_(address)

    return kernel


def prepared(ceiling, arena, scale=1.0):
    return KERNELS[ceiling].prepare(KERNELS[ceiling].variants(arena.device)[0], arena, scale)


@pytest.mark.parametrize("lines", [2, 3, 128, 1000])
def test_the_chain_visits_every_line_once_before_it_returns(cpu_arena, lines):
    memory, order = latency._chain(lines, cpu_arena())
    start = address = memory.data_ptr()
    seen = []
    for _ in range(lines):
        seen.append((address - start) // latency.LINE_BYTES)
        address = ctypes.c_uint64.from_address(address).value
    assert address == start and sorted(seen) == list(range(lines))
    assert sorted(order.tolist()) == list(range(lines))


@pytest.mark.parametrize("ceiling", CEILINGS)
def test_work_is_the_number_of_loads(emulate, cpu_arena, ceiling):
    launches = emulate(latency)
    for scale in (1.0, 0.5):
        job = prepared(ceiling, cpu_arena(), scale)
        job.run(0)
        hops = launches[-1][2][1]
        assert job.work == hops == latency.HOPS[ceiling] * scale
        assert hops % 16 == 0  # the kernel follows sixteen at a time


@pytest.mark.parametrize("ceiling", CEILINGS)
def test_a_right_chase_is_believed(emulate, cpu_arena, ceiling):
    emulate(latency, chase())
    assert prepared(ceiling, cpu_arena()).check() == 0


def test_a_launch_goes_on_where_the_one_before_stopped(emulate, cpu_arena):
    # 4 MiB are 32768 lines, a launch follows 8192: after four it is back, so all lines are cold again.
    launches = emulate(latency, chase())
    job, places = prepared("latency_dram", cpu_arena()), []
    for i in range(5):
        job.run(i)
        places.append(int(launches[-1][2][0]))
    assert len(set(places)) == 4 and places[4] == places[0]


@pytest.mark.parametrize("wrong", [chase(hops_missing=1), lambda *_: None])
@pytest.mark.parametrize("ceiling", CEILINGS)
def test_a_hop_too_few_is_refused(emulate, cpu_arena, ceiling, wrong):
    emulate(latency, wrong)
    assert prepared(ceiling, cpu_arena()).check() > 0


def test_each_set_fits_its_level_and_not_the_one_before(cpu_arena):
    device = cpu_arena().device  # L2: 1 MiB
    sizes = [latency.set_bytes(ceiling, device) for ceiling in CEILINGS]
    assert sizes[0] <= 32 << 10 and 256 << 10 < sizes[1] < 1 << 20 and sizes[2] == 4 << 20
