from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from roofline.report.labels import Box, arrange, clusters, cross, spread

positions = st.lists(st.floats(0, 100), min_size=1, max_size=20)


@given(positions)
def test_spread_keeps_distance_and_order(wanted):
    placed = spread(wanted, 3, 0, 100)
    assert all(abs(a - b) >= 3 - 1e-9 for a, b in combinations(placed, 2))
    assert all(
        (a <= b) == (x <= y) for (a, x), (b, y) in combinations(zip(wanted, placed, strict=True), 2) if a != b
    )
    assert min(placed) >= 0
    assert max(placed) <= 100 + 1e-9


def test_spread_leaves_alone_what_has_room():
    assert spread([50, 10, 30], 5, 0, 100) == [50, 10, 30]


def test_spread_shares_the_shift():
    # Both want 50 and need 10 between them: least squares moves each by half of it.
    assert spread([50, 50], 10, 0, 100) == [45, 55]


def test_clusters():
    # 10 and 10.4 lie within 5 % of the first; 10.6 does not.
    assert clusters([10.6, 10.0, 10.4, 90.0], 1.05) == [[1, 2], [0], [3]]


def test_boxes():
    box = Box(0, 0, 10, 10)
    assert box.overlaps(Box(9, 9, 20, 20))
    assert not box.overlaps(Box(10, 0, 20, 10))
    assert Box(1, 1, 2, 2).inside(box)
    assert not Box(1, 1, 11, 2).inside(box)
    assert box.holds((5, 5))


def test_cross():
    assert cross((0, 0), (2, 2), (0, 2), (2, 0))
    assert not cross((0, 0), (1, 1), (3, 0), (0, 3))


FRAME = Box(0, 0, 1000, 600)


@given(st.lists(st.tuples(st.floats(100, 900), st.floats(100, 500)), max_size=12))
def test_labels_cover_nothing(points):
    sizes = [(80.0 if i % 3 == 0 else 12.0, 10.0) for i in range(len(points))]
    taken = [Box(x - 4, y - 4, x + 4, y + 4) for x, y in points]
    boxes = [box for box in arrange(points, sizes, taken, [], FRAME) if box]
    assert all(not a.overlaps(b) for a, b in combinations(boxes, 2))
    assert all(not box.overlaps(other) for box in boxes for other in taken)
    assert all(box.inside(FRAME) for box in boxes)


def test_labels_keep_off_lines():
    (box,) = arrange([(500, 300)], [(80, 10)], [], [((0, 290), (1000, 290))], FRAME)
    assert box.bottom >= 290 or box.top <= 290


def test_no_room_no_label():
    assert arrange([(5, 5)], [(80, 10)], [], [], Box(0, 0, 10, 10)) == [None]
