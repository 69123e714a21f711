import csv
import json

import pytest

from roofline.errors import FileError
from roofline.report.export import load_json, save_ceilings_csv, save_csv, save_json, sheet


def test_json_is_validated_by_loading_it_back(placement, tmp_path):
    path = save_json([placement, placement], tmp_path / "out.json", "module")
    first, second = load_json(path).placements
    assert first == second == sheet(placement, "module")
    assert first.total.floor_s == placement.floor_s
    assert first.total.uncounted == {"my::kernel": 1}
    assert first.fallbacks[0].asked == "tensor_tf32"
    assert first.ceilings["fp32"] == 15e12
    assert first.ridge_points == {"fp32": 15e12 / 900e9}


def test_undefined_values_are_null_and_never_nan(placement, tmp_path):
    rows = json.loads(save_json([placement], tmp_path / "out.json").read_text())["placements"][0]["rows"]
    empty = next(row for row in rows if row["name"] == "empty")
    assert empty["intensity"] == {"dram": None, "l2": None}
    assert empty["attainable_flops_per_s"] is None
    assert empty["floor_s"] == 0


@pytest.mark.parametrize(
    "content", ["", "{", '{"placements": [{"program": 3}]}', '{"placements": [], "schema_version": 99}']
)
def test_damaged_and_newer_files(tmp_path, content):
    path = tmp_path / "bad.json"
    path.write_text(content)
    with pytest.raises(FileError, match=r"bad\.json"):
        load_json(path)


def test_missing_file(tmp_path):
    with pytest.raises(FileError, match=r"none\.json"):
        load_json(tmp_path / "none.json")


def test_csv_has_a_line_per_machine_and_layer(placement, tmp_path):
    with save_csv([placement, placement], tmp_path / "out.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 2 * len(placement.by("layer"))
    assert sum(int(row["flops"]) for row in rows) == 2 * placement.total.flops
    assert rows[0]["seconds_by_ceiling"].startswith("fp32=")
    assert rows[5]["uncounted"] == "my::kernel=1"


def test_ceilings_as_csv(make_machine, tmp_path):
    path = save_ceilings_csv([make_machine(dram_read=9.0), make_machine(fp32=3.0)], tmp_path / "c.csv")
    assert path.read_text().splitlines()[1:] == [
        "Toy,dram_read,9.0,bytes_per_s,https://example.org/toy,",
        "Toy,fp32,3.0,flops_per_s,https://example.org/toy,",
    ]


def test_unwritable(placement, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(FileError):
        save_csv([placement], tmp_path / "file" / "out.csv")
