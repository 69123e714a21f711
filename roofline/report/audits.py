"""Table of the audit by counters: what each microkernel claims, and what the hardware counted."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.markup import escape

from roofline.machine.record import CounterAudit, Machine
from roofline.report.text import label, make_table, notes

_VERDICTS = {True: "yes", False: "NO", None: "not counted"}


def audit_table(machine: Machine) -> RenderableType:
    """One row for each microkernel, the reasons below."""
    table = make_table(
        f"{machine.name} — claims against counters",
        ("ceiling", "microkernel", "quantity", "as claimed"),
        ("claimed", "counted", "counted / claimed"),
        [_row(audit) for audit in machine.audits],
    )
    remarks = [f"{label(a.ceiling)}, {a.variant}: {remark}" for a in machine.audits if (remark := _remark(a))]
    return Group(table, *notes(remarks))


def _row(audit: CounterAudit) -> tuple[str, ...]:
    return (
        label(audit.ceiling),
        escape(audit.variant),
        audit.quantity,
        _VERDICTS[audit.ok],
        f"{audit.claimed:.6g}",
        "" if audit.counted is None else f"{audit.counted:.6g}",
        "" if audit.ratio is None else f"{audit.ratio:.4f}",
    )


def _remark(audit: CounterAudit) -> str:
    if audit.ok is False:
        return f"off by more than {100 * audit.tolerance:g} % ({' + '.join(audit.counters)})"
    return audit.note
