"""`python -m roofline.probe`, and `roofline.probe(...)`: measure what this device can really do."""

from roofline.callable_module import make_callable

make_callable(__name__, "roofline.measure.run", "probe")

if __name__ == "__main__":
    import sys

    from roofline.cli import main

    main(["probe", *sys.argv[1:]], prog="python -m roofline")
