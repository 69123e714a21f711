"""Names: every GPU under its own names, no variant under another's, unknown ones with the nearest."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roofline.errors import UnknownMachine
from roofline.machine import catalog
from roofline.machine.specs import rows

GIB = 2**30
NAMES = [row.name for row in rows()]


def lookup(name):
    return catalog.datasheet(name).name


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("write", [str, str.lower, str.upper, lambda n: n.replace(" ", "-"), "  {}  ".format])
def test_every_row_resolves_by_its_own_name(name, write):
    assert lookup(write(name)) == name


@pytest.mark.parametrize("name", [row.name for row in rows() if row.vendor == "NVIDIA"])
@pytest.mark.parametrize("prefix", ["NVIDIA ", "NVIDIA GeForce ", "nvidia corporation "])
def test_every_nvidia_row_resolves_with_the_vendor_in_front(name, prefix):
    assert lookup(prefix + name) == name


@pytest.mark.parametrize(
    ("printed", "name"),
    [
        ("GeForce GTX 1060 6GB", "GTX 1060 6GB"),
        ("NVIDIA GeForce GTX 1080 Ti", "GTX 1080 Ti"),
        ("NVIDIA TITAN Xp", "TITAN Xp"),
        ("Tesla P40", "Tesla P40"),
        ("Tesla P100-PCIE-16GB", "Tesla P100 PCIe 16GB"),
        ("Tesla P100-SXM2-16GB", "Tesla P100 SXM2 16GB"),
        ("Tesla K80", "Tesla K80 (one of 2 GPUs)"),
        ("NVIDIA TITAN V", "TITAN V"),
        ("Tesla V100-PCIE-16GB", "V100 PCIe 16GB"),
        ("Tesla V100-PCIE-32GB", "V100 PCIe 32GB"),
        ("Tesla V100-SXM2-16GB", "V100 SXM2 16GB"),
        ("Tesla V100-SXM2-32GB", "V100 SXM2 32GB"),
        ("Tesla V100S-PCIE-32GB", "V100S PCIe 32GB"),
        ("GeForce RTX 2060 SUPER", "RTX 2060 SUPER"),
        ("NVIDIA GeForce RTX 2080 Ti", "RTX 2080 Ti"),
        ("NVIDIA TITAN RTX", "TITAN RTX"),
        ("Quadro RTX 6000", "Quadro RTX 6000"),
        ("Quadro RTX 8000", "Quadro RTX 8000"),
        ("Tesla T4", "T4"),
        ("NVIDIA GeForce RTX 3060", "RTX 3060"),
        ("NVIDIA GeForce RTX 3060 Ti", "RTX 3060 Ti"),
        ("NVIDIA GeForce RTX 3080", "RTX 3080"),
        ("NVIDIA GeForce RTX 3090", "RTX 3090"),
        ("NVIDIA RTX A2000 12GB", "RTX A2000 12GB"),
        ("NVIDIA RTX A6000", "RTX A6000"),
        ("RTX A6000", "RTX A6000"),
        ("NVIDIA A10", "A10"),
        ("NVIDIA A10G", "A10G"),
        ("NVIDIA A16", "A16 (one of 4 GPUs)"),
        ("NVIDIA A40", "A40"),
        ("NVIDIA A100-PCIE-40GB", "A100 PCIe 40GB"),
        ("NVIDIA A100-SXM4-40GB", "A100 SXM4 40GB"),
        ("A100-SXM-80GB", "A100 SXM4 80GB"),
        ("NVIDIA A100-SXM4-80GB", "A100 SXM4 80GB"),
        ("NVIDIA A100 80GB PCIe", "A100 PCIe 80GB"),
        ("NVIDIA A800-SXM4-80GB", "A800 SXM4 80GB"),
        ("NVIDIA GeForce RTX 4070 Ti SUPER", "RTX 4070 Ti SUPER"),
        ("NVIDIA GeForce RTX 4090", "RTX 4090"),
        ("NVIDIA GeForce RTX 4090 D", "RTX 4090 D"),
        ("NVIDIA L4", "L4"),
        ("NVIDIA L40", "L40"),
        ("NVIDIA L40S", "L40S"),
        ("NVIDIA RTX 5000 Ada Generation", "RTX 5000 Ada"),
        ("NVIDIA RTX 6000 Ada Generation", "RTX 6000 Ada"),
        ("NVIDIA H100 PCIe", "H100 PCIe 80GB"),
        ("NVIDIA H100 80GB HBM3", "H100 SXM5 80GB"),
        ("NVIDIA H100 NVL", "H100 NVL 94GB"),
        ("NVIDIA H800", "H800 SXM5 80GB"),
        ("NVIDIA H20", "H20"),
        ("NVIDIA H200", "H200 SXM 141GB"),
        ("NVIDIA GH200 480GB", "GH200 96GB (GPU part)"),
        ("NVIDIA B200", "B200 SXM"),
        ("NVIDIA GeForce RTX 5090", "RTX 5090"),
        ("NVIDIA GeForce RTX 5090 D", "RTX 5090 D"),
        ("NVIDIA RTX PRO 6000 Blackwell Workstation Edition", "RTX PRO 6000 Blackwell"),
        ("AMD Instinct MI210", "AMD MI210"),
        ("AMD Instinct MI300X", "AMD MI300X"),
        ("AMD Radeon RX 7900 XTX", "AMD RX 7900 XTX"),
    ],
)
def test_names_as_drivers_print_them(printed, name):
    assert lookup(printed) == name


@pytest.mark.parametrize(
    ("typed", "name"),
    [
        ("3090", "RTX 3090"),
        ("rtx3090", "RTX 3090"),
        ("RTX3090Ti", "RTX 3090 Ti"),
        ("4070tisuper", "RTX 4070 Ti SUPER"),
        ("4090D", "RTX 4090 D"),
        ("A6000", "RTX A6000"),
        ("RTX 3090 24GB", "RTX 3090"),
        ("RTX 3090 24 GB", "RTX 3090"),
        ("RTX 3080 10 GB", "RTX 3080"),
        ("H100 SXM 80GB", "H100 SXM5 80GB"),
        ("MI300X", "AMD MI300X"),
    ],
)
def test_names_as_people_type_them(typed, name):
    assert lookup(typed) == name


@pytest.mark.parametrize(
    "name",
    [
        "NVIDIA GeForce RTX 4090 Laptop GPU",
        "NVIDIA GeForce RTX 3080 Ti Laptop GPU",
        "NVIDIA RTX A5000 Laptop GPU",
        "NVIDIA RTX 5000 Ada Generation Laptop GPU",
        "GeForce RTX 2080 with Max-Q Design",
        "Quadro RTX 5000 with Max-Q Design",
        "NVIDIA GeForce RTX 3090 Mobile",
        "NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition",
        "NVIDIA RTX PRO 6000 Blackwell Server Edition",
        "NVIDIA A100-SXM4-80GB MIG 3g.40gb",
        "Tesla V100-SXM3-32GB",
        "Tesla V100-DGXS-32GB",
        "Tesla V100-FHHL-16GB",
        "Tesla P100-PCIE-12GB",
        "GeForce GTX 1060 3GB",
        "GeForce GTX 1080",
        "NVIDIA GeForce RTX 3060 8GB",
        "NVIDIA GeForce RTX 5090 D v2",
        "NVIDIA H200 NVL",
        "NVIDIA H800 PCIe",
        "NVIDIA RTX 4000 Ada Generation",
        "AMD Instinct MI300A",
        "Quadro 6000",
        "AMD RTX 3090",
        "Radeon 3090",
        "RTX",
        "TITAN",
        "80GB",
        "NVIDIA",
        "",
        "?",
    ],
)
def test_another_card_is_never_taken_for_one_we_know(name):
    with pytest.raises(UnknownMachine):
        catalog.datasheet(name)


@pytest.mark.parametrize(
    ("name", "variants"),
    [
        ("A100", ["A100 PCIe 40GB", "A100 SXM4 40GB", "A100 PCIe 80GB", "A100 SXM4 80GB"]),
        ("NVIDIA A100 PCIe", ["A100 PCIe 40GB", "A100 PCIe 80GB"]),
        ("A100 80GB", ["A100 PCIe 80GB", "A100 SXM4 80GB"]),
        ("V100", ["V100 PCIe 16GB", "V100 PCIe 32GB", "V100 SXM2 16GB", "V100 SXM2 32GB"]),
        ("NVIDIA H100", ["H100 PCIe 80GB", "H100 SXM5 80GB", "H100 NVL 94GB"]),
        ("RTX 6000", ["Quadro RTX 6000", "RTX 6000 Ada", "RTX PRO 6000 Blackwell"]),
        ("RTX 4060 Ti", ["RTX 4060 Ti 16GB"]),
        ("AMD Instinct MI250X", ["AMD MI250X (2 GCD)"]),
    ],
)
def test_a_name_several_variants_share_lists_them(name, variants):
    with pytest.raises(UnknownMachine) as error:
        catalog.datasheet(name)
    assert f"any of: {', '.join(variants)}." in str(error.value)


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("RTX 3900", "RTX 3090"),
        ("NVIDIA GeForce RTX 4090 Laptop GPU", "RTX 4090"),
        ("NVIDIA H200 NVL", "H200 SXM 141GB"),
        ("L4O", "L40"),
        ("Instinct MI300", "AMD MI300X"),
    ],
)
def test_an_unknown_name_lists_the_nearest_and_what_to_do(name, near):
    with pytest.raises(UnknownMachine) as error:
        catalog.datasheet(name)
    message = str(error.value)
    nearest = message.partition("Nearest known: ")[2].partition(". Give")[0].split(", ")
    assert near in nearest and len(nearest) == 4
    assert name in message and "roofline probe" in message


@pytest.mark.parametrize(
    ("name", "gib", "row"),
    [
        # Both sizes print the same name; the driver's memory tells them apart.
        ("NVIDIA GeForce RTX 3080", 10.0, "RTX 3080"),
        ("NVIDIA GeForce RTX 3080", 12.0, "RTX 3080 12GB"),
        ("NVIDIA GeForce RTX 4060 Ti", 16.0, "RTX 4060 Ti 16GB"),
        ("NVIDIA GeForce RTX 5060 Ti", 15.9, "RTX 5060 Ti 16GB"),
        # ECC and firmware hide a part: T4 reports 14.74 of 16 GiB, A40 44.4 of 48, H200 140.4 of 141.
        ("Tesla T4", 14.74, "T4"),
        ("NVIDIA A40", 44.4, "A40"),
        ("NVIDIA H200", 140.4, "H200 SXM 141GB"),
    ],
)
def test_memory_tells_one_name_in_two_sizes_apart(name, gib, row):
    assert catalog.datasheet(name, round(gib * GIB)).name == row


@pytest.mark.parametrize(
    ("name", "gib"),
    [
        ("NVIDIA GeForce RTX 3060", 8),
        ("NVIDIA GeForce RTX 4060 Ti", 8),
        ("NVIDIA H200", 17.5),
        ("NVIDIA A30", 6),
    ],
)
def test_a_card_with_other_memory_or_a_slice_of_one_is_not_the_whole(name, gib):
    with pytest.raises(UnknownMachine, match=rf"with {gib:.1f} GiB"):
        catalog.datasheet(name, round(gib * GIB))


VARIANT_WORDS = (
    "ti",
    "super",
    "laptop",
    "mobile",
    "max",
    "q",
    "s",
    "d",
    "pcie",
    "sxm2",
    "sxm4",
    "sxm5",
    "nvl",
)
VARIANT_WORDS += (
    "ada",
    "quadro",
    "pro",
    "blackwell",
    "titan",
    "server",
    "mig",
    "amd",
    "8gb",
    "16gb",
    "40gb",
    "80gb",
)
MODELS = (
    "3080",
    "3090",
    "4070",
    "4090",
    "5090",
    "6000",
    "a100",
    "h100",
    "v100",
    "h200",
    "a6000",
    "l40",
    "xp",
)


@given(
    model=st.sampled_from(MODELS),
    brand=st.sampled_from(("", "RTX ", "NVIDIA GeForce RTX ", "NVIDIA ", "Tesla ")),
    extra=st.lists(st.sampled_from(VARIANT_WORDS), max_size=3, unique=True),
    separator=st.sampled_from((" ", "-", "_")),
)
def test_words_that_tell_variants_apart_are_never_dropped_nor_invented(model, brand, extra, separator):
    name = brand + separator.join((model, *extra))
    try:
        machine = catalog.datasheet(name)
    except UnknownMachine:
        return
    known = machine.name.lower().replace("-", " ").split()
    size = f"{machine.device.memory_bytes // GIB}gb"
    distinguishing = {word for word in VARIANT_WORDS if not word.endswith("gb")}
    assert {*extra} & distinguishing == {*known} & distinguishing
    assert model in known
    assert {word for word in extra if word.endswith("gb")} <= {size}


@given(
    st.sampled_from(NAMES),
    st.sampled_from(("Laptop GPU", "with Max-Q Design", "Mobile", "Max-Q", "MIG 1g.10gb")),
)
def test_no_row_answers_for_its_laptop_or_sliced_version(name, suffix):
    with pytest.raises(UnknownMachine):
        catalog.datasheet(f"{name} {suffix}")


@given(st.text(max_size=40))
def test_any_text_is_a_row_or_one_clear_error(name):
    try:
        assert lookup(name) in NAMES
    except UnknownMachine as error:
        assert name in str(error)


def test_names_lists_every_row_once():
    assert catalog.names()[: len(NAMES)] == tuple(NAMES)
    assert len(set(catalog.names())) == len(catalog.names())
