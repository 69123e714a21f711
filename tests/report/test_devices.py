"""One table over several devices."""

from roofline.report.devices import devices_table


def test_devices_with_an_outlier(golden, make_machine):
    machines = [
        make_machine(name="Toy", dram_read=4.5e12, fp32=60e12),
        make_machine(name="Toy", dram_read=4.2e12, fp32=61e12),
        make_machine(name="Toy", dram_read=4.5e12, fp32=60e12),
        make_machine(name="Other", fp32=30e12, launch_eager=5e-6),
    ]
    printed, expected = golden("devices.txt", devices_table([f"cuda:{i}" for i in range(4)], machines))
    assert printed == expected


def test_devices_that_are_alike(golden, make_machine):
    machines = [make_machine(name="Toy", fp32=60e12), make_machine(name="Toy", fp32=60.5e12)]
    printed, expected = golden("devices_alike.txt", devices_table(["cuda:0", "cuda:1"], machines))
    assert printed == expected
