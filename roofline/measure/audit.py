"""Does a microkernel's machine code do what its formula says? Claims, checked against a listing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from roofline.measure.sass import Code, Listing


@dataclass(frozen=True, kw_only=True)
class Claim:
    """What the machine code of a microkernel must be made of. No claim allows spills."""

    counts: Mapping[str, int]
    """Instruction (see `Instruction.matches`) → how many, per iteration or in the whole kernel."""
    scope: Literal["loop", "kernel"] = "loop"
    """"loop": the innermost loop that holds most of them; "kernel": for kernels without a loop."""
    overhead: float = 1.0
    """Largest share of instructions that `counts` does not name; padding (NOP) is left out."""
    unrolled: bool = False
    """Whether the compiler may put several iterations into one: then a multiple of all counts will do."""
    registers: int | None = None
    """Largest number per thread, so that all blocks of the launch are resident at once."""


@dataclass(frozen=True, kw_only=True)
class Audit:
    """The outcome. It passed if there are no failures."""

    function: str
    failures: tuple[str, ...]
    """Each a sentence: what was expected, what was found."""
    iterations: int = 1
    """Source iterations in one pass through the loop."""

    @property
    def passed(self) -> bool:
        """Whether the machine code is what was claimed."""
        return not self.failures

    def __str__(self) -> str:
        return f"{self.function}: {'; '.join(self.failures) or 'as claimed'}"


def check(listing: Listing, claim: Claim) -> Audit:
    """Compares the machine code with the claim."""
    wanted = [pattern for pattern, count in claim.counts.items() if count]
    code = listing if claim.scope == "kernel" else listing.hottest(wanted)
    if code is None:
        found = ", ".join(f"{listing.count(pattern)} {pattern}" for pattern in wanted)
        failure = f"expected a loop with {' and '.join(wanted)}, found none; the whole kernel has {found}"
        return Audit(function=listing.function, failures=(failure, *_resources(listing, claim)))
    iterations = max(1, code.count(wanted[0]) // claim.counts[wanted[0]]) if claim.unrolled else 1
    failures = (*_counts(code, claim, iterations), *_overhead(code, claim), *_resources(listing, claim))
    return Audit(function=listing.function, failures=failures, iterations=iterations)


def _counts(code: Code, claim: Claim, iterations: int) -> list[str]:
    times = f" ({iterations} iterations unrolled)" if iterations > 1 else ""
    return [
        f"expected {count * iterations} {pattern} in the {claim.scope}{times}, found {code.count(pattern)}"
        for pattern, count in claim.counts.items()
        if code.count(pattern) != count * iterations
    ]


def _overhead(code: Code, claim: Claim) -> list[str]:
    # The assembler pads pipes slower than the issue rate with NOP, which costs them nothing.
    total = len(code.instructions) - code.count("NOP")
    other = total - code.count(*claim.counts)
    if other <= claim.overhead * total:
        return []
    share = f"{claim.overhead:.0%} other instructions in the {claim.scope}"
    return [f"expected at most {share}, found {other} of {total}"]


def _resources(listing: Listing, claim: Claim) -> list[str]:
    failures = []
    if listing.spills:
        failures.append(f"expected no spills, found {listing.spills} accesses to local memory (LDL, STL)")
    if claim.registers is not None and (listing.registers or 0) > claim.registers:
        failures.append(f"expected at most {claim.registers} registers per thread, found {listing.registers}")
    return failures
