"""Machine code (SASS) of one kernel: its instructions, its loops and what is in them."""

from __future__ import annotations

import json
import re
import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

from roofline.errors import BackendUnavailable, RooflineError

_SPILLS = ("LDL", "STL")
_BRANCHES = ("BRA", "JMP")
_ENDS = ("EXIT", "RET", "BRX", "JMX")
_INSTRUCTION_BYTES = 16  # since Volta
_ELF_OSABI, _ELF_FLAGS = 7, 48  # offsets in a 64-bit ELF header
_OSABI_BEFORE_CUDA_13 = 51  # e_flags holds the compute capability in its bytes 0 and 2
_ALWAYS = ("", "@PT", "@UPT")


@dataclass(frozen=True)
class Instruction:
    """One instruction at its byte address."""

    address: int
    opcode: str
    """With all its modifiers: "LDG.E.128.STRONG.GPU"."""
    operands: str = ""
    predicate: str = ""
    """"@!P0"; empty if it always executes."""

    def matches(self, pattern: str) -> bool:
        """Whether "LDG.128" stands for it: same operation, and it has all modifiers named, in any place."""
        operation, *modifiers = pattern.split(".")
        mine = self.opcode.split(".")
        return mine[0] == operation and set(modifiers) <= set(mine[1:])

    @property
    def target(self) -> int | None:
        """Address a branch goes to; None for anything else."""
        if self.opcode.split(".")[0] not in _BRANCHES:
            return None
        found = re.search(r"0x[0-9a-f]+$", self.operands)
        return int(found[0], 16) if found else None

    @property
    def falls_through(self) -> bool:
        """Whether the next instruction can be executed after it."""
        if self.predicate not in _ALWAYS:
            return True
        if self.target is not None:
            return "," in self.operands or bool({"DIV", "CONV"} & set(self.opcode.split(".")))
        return self.opcode.split(".")[0] not in _ENDS


@dataclass(frozen=True)
class Code:
    """Some instructions, in the order of their addresses."""

    instructions: tuple[Instruction, ...]

    def count(self, *patterns: str) -> int:
        """How many instructions match one of the patterns (see `Instruction.matches`)."""
        return sum(any(i.matches(pattern) for pattern in patterns) for i in self.instructions)

    @property
    def opcodes(self) -> Counter[str]:
        """How often each opcode occurs."""
        return Counter(i.opcode for i in self.instructions)


@dataclass(frozen=True)
class Listing(Code):
    """A whole kernel."""

    function: str
    registers: int | None = None
    """Per thread."""

    @property
    def spills(self) -> int:
        """Accesses to local memory: registers that did not suffice, or arrays that did not stay in them."""
        return self.count(*_SPILLS)

    @cached_property
    def loops(self) -> tuple[Code, ...]:
        """Natural loops, the smallest first; two that share their head count as one."""
        bodies: dict[int, set[int]] = {}
        for tail, head in self._branches():
            body = self._body(head, tail)
            if body:
                bodies.setdefault(head, set()).update(body)
        loops = [Code(tuple(self.instructions[i] for i in sorted(body))) for body in bodies.values()]
        return tuple(sorted(loops, key=lambda loop: len(loop.instructions)))

    def hottest(self, patterns: Iterable[str]) -> Code | None:
        """Of the innermost loops that hold one of the patterns, the one that holds most; None without any."""
        patterns = tuple(patterns)
        holding = [loop for loop in self.loops if loop.count(*patterns)]
        innermost = [
            loop
            for loop in holding
            if not any(set(other.instructions) < set(loop.instructions) for other in holding)
        ]
        return max(innermost, key=lambda loop: loop.count(*patterns), default=None)

    def _branches(self) -> list[tuple[int, int]]:
        """(index of the branch, index of its target); a branch to itself is the trap behind the code."""
        index = {instruction.address: i for i, instruction in enumerate(self.instructions)}
        pairs = [(i, index.get(x.target, i)) for i, x in enumerate(self.instructions) if x.target is not None]
        return [(i, j) for i, j in pairs if i != j]

    @cached_property
    def _predecessors(self) -> list[list[int]]:
        before: list[list[int]] = [[] for _ in self.instructions]
        for i, instruction in enumerate(self.instructions[:-1]):
            if instruction.falls_through:
                before[i + 1].append(i)
        for tail, head in self._branches():
            before[head].append(tail)
        return before

    def _body(self, head: int, tail: int) -> set[int]:
        """What reaches `tail` without passing `head`; empty if the entry does: then it is no loop."""
        body, ahead = {head}, [tail]
        while ahead:
            i = ahead.pop()
            if i not in body:
                body.add(i)
                ahead.extend(self._predecessors[i])
        return set() if 0 in body and head != 0 else body


def disassemble(cubin: bytes, function: str | None = None) -> Listing:
    """The kernel `function` of a cubin; may be left out if there is one only."""
    kernels = _kernels(cubin)
    if function is None and len(kernels) == 1:
        return next(iter(kernels.values()))
    if function not in kernels:
        raise RooflineError(
            f"No kernel '{function or ''}' in this cubin; it has: {', '.join(kernels) or 'none'}."
        )
    return kernels[function]


@cache
def _kernels(cubin: bytes) -> dict[str, Listing]:
    """Every kernel, by name; kept, because starting the disassembler takes half a second."""
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(_readable(cubin))
        file.flush()
        _, functions = json.loads(_tool("nvdisasm", "--emit-json", file.name))
        usage = _tool("cuobjdump", "--dump-resource-usage", file.name)
    registers = {name: int(count) for name, count in re.findall(r"Function (\S+):\s+REG:(\d+)", usage)}
    listings = (
        Listing(_instructions(f), f["function-name"], registers.get(f["function-name"])) for f in functions
    )
    # A name that starts with $ is a subroutine of the compiler's own.
    return {listing.function: listing for listing in listings if not listing.function.startswith("$")}


def _instructions(kernel: dict) -> tuple[Instruction, ...]:
    start, rows = kernel["start"], kernel["sass-instructions"]
    return tuple(
        Instruction(
            start + _INSTRUCTION_BYTES * i, r["opcode"], r.get("operands", ""), r.get("predicate", "")
        )
        for i, r in enumerate(rows)
    )


def _readable(cubin: bytes) -> bytes:
    """Volta relabelled as Turing: one encoding, but disassemblers since CUDA 13.1 refuse Volta's name."""
    if cubin[_ELF_OSABI] != _OSABI_BEFORE_CUDA_13 or cubin[_ELF_FLAGS] != 70:
        return cubin
    relabelled = bytearray(cubin)
    relabelled[_ELF_FLAGS] = relabelled[_ELF_FLAGS + 2] = 75
    return bytes(relabelled)


def _tool(name: str, *arguments: str) -> str:
    """Output of one of the binary utilities that Triton's package carries."""
    import triton

    path = Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / name
    if not path.exists():
        raise BackendUnavailable(f"Triton {triton.__version__} carries no {name} (looked for {path}).")
    result = subprocess.run([path, *arguments], capture_output=True, text=True)
    if result.returncode:
        raise RooflineError(f"{name} {' '.join(arguments)} failed: {result.stderr.strip()}")
    return result.stdout
