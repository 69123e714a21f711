"""The table of the audit by counters."""

from dataclasses import replace
from io import StringIO

from rich.console import Console

from roofline.machine.record import CounterAudit
from roofline.report.audits import audit_table


def test_claims_counts_verdicts_and_reasons(make_measured):
    def audit(ceiling, counted, ok, note=""):
        ratio = counted / 1e9 if counted else None
        return CounterAudit(
            ceiling=ceiling, variant="cupy: 8 chains", quantity="flops", counters=("ffma.sum",), claimed=1e9,
            counted=counted, ratio=ratio, ok=ok, tolerance=0.005, note=note,
        )  # fmt: skip

    audits = (audit("fp32", 1.002e9, True), audit("fp16x2", 0.5e9, False), audit("fp64", None, None, "no counter"))
    console = Console(width=160, file=StringIO())
    console.print(audit_table(replace(make_measured(fp32=1e12), audits=audits)))
    text = console.file.getvalue()
    for row in ("1.0020", "0.5000", "not counted", "fp16x2 FMA, cupy: 8 chains: off by more than 0.5 % (ffma.sum)",
                "fp64 FMA, cupy: 8 chains: no counter"):  # fmt: skip
        assert row in text, row
    assert "fp32 FMA, cupy" not in text
