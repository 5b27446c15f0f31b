#!/usr/bin/env python3
"""Looks in the machine code of sm_90a and later for a register that is used before the load (or another instruction of
variable latency) that writes it has been waited for. ptxas 13.0 has been seen to leave out such a wait for a load at
the end of a loop: lanes then go on with what the register held before, and the kernel hangs or reads elsewhere.

An instruction names a scoreboard that it raises until its result is there (6 of them, a counter each), another until
its operands have been read, and a mask of scoreboards to wait for first: bits 41 and up of its upper half. Along all
paths of a kernel, each register has the scoreboards that still have to be waited for.

usage: scripts/check_sass.py [KILN] [CONFIG or file.cubin ...] [--all]
  KILN    the kiln program (default build/kiln)
  CONFIG  shipped configs (default: some of every schedule; --all: all of sm_90a, sm_100a and sm_103a)
Needs nvdisasm (of CUDA, or the wheel nvidia-cuda-nvdisasm); without it, says so and passes. Status 1 on a finding.
"""
import argparse
import collections
import concurrent.futures
import dataclasses
import os
import pathlib
import re
import shutil
import struct
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
TARGETS = ("sm_90a", "sm_100a", "sm_103a")
CONFIGS = [
    # Work items of a ragged batch that the producer keeps in memory: three of them had lost a wait.
    "prefill_fp8q_d128_paged16_token_causal_sm90a", "prefill_fp8_d128_ragged_causal_sm90a",
    "prefill_int8_d128_paged64_head_causal_sm90a", "prefill_fp8q_d128_paged16_head_causal_sm90a",
    "prefill_fp8_d128_paged16_token_causal_sm90a",
    "prefill_bf16_d128_paged16_causal_sm90a", "llama3_8b_prefill_sm90a", "decode_bf16_d128_paged16_sm90a",
    "deepseek_mla_decode_sm90a", "prefill_bf16_d128_causal_sm100a", "llama3_8b_decode_sm100a",
]
REGISTER = re.compile(r"(?<![\w.])(UR|UP|R|P)(\d+)(?!\w)")
INSTRUCTION = re.compile(r"\s+/\*([0-9a-f]{4,})\*/\s+(.*?)\s*;")
LABEL = re.compile(r"(\.L_x_\d+):")
# What follows these names are operands that are read.
NO_RESULT = ("ST", "RED.", "BAR", "SYNCS.ARR", "BRA", "BSSY", "BSYNC", "WARPSYNC", "LDGSTS", "EXIT", "NOP", "ARRIVES",
             "MEMBAR", "FENCE", "CCTL", "DEPBAR", "WARPGROUP", "YIELD", "RET", "CALL", "BREAK", "UTMA", "UBLK",
             "USETMAXREG", "HGMMA", "QGMMA", "IGMMA", "UTC")
SETS_PREDICATES = ("ISETP", "FSETP", "DSETP", "HSETP2", "UISETP", "PLOP3", "UPLOP3")


@dataclasses.dataclass
class Instruction:
    """An instruction: where it is, what it does to registers, and where it goes on."""
    address: int
    text: str
    waits: int  # mask of scoreboards
    writes_under: int  # scoreboard until its results are there; 7: none
    reads_under: int  # scoreboard until its operands are read; 7: none
    results: frozenset
    operands: frozenset
    target: str  # label of a branch, or ""
    goes_on: bool  # to the instruction after it
    forgets: bool  # a call, or a wait for everything


def results_of(op: str, operands: list) -> int:
    """How many of the operands, from the first, are results."""
    if op.startswith(NO_RESULT):
        return 0
    if op.startswith(SETS_PREDICATES):
        return 2
    if op.startswith("FCHK"):
        return 1
    if operands and re.fullmatch(r"U?P[\dT]", operands[0]) and not op.startswith(("SYNCS", "IADD3", "LEA", "U")):
        return 2  # SHFL P0, R1, ...; R2UR P0, UR4, ...
    count = 1
    if op.startswith(("IADD3", "LEA", "UIADD3", "ULEA")):
        while count < len(operands) and re.fullmatch(r"U?P[\dT]", operands[count]):
            count += 1
    return count


def width_of(op: str) -> int:
    """Registers of a result or of what is stored."""
    if op.startswith("LDSM"):
        return 4 if ".4" in op else 2 if ".2" in op else 1
    if op.startswith(("IMAD.WIDE", "UIMAD.WIDE", "CS2R")):
        return 1 if ".32" in op and op.startswith("CS2R") else 2
    return 4 if ".128" in op else 2 if ".64" in op.replace(".U64", ".64") else 1


def registers(operand: str, width: int) -> set:
    """The registers that an operand names: `width` of each of R and UR, two of an address of 64 bits."""
    found = set()
    for kind, number in REGISTER.findall(operand):
        count = 1 if kind in ("P", "UP") else 2 if ".64" in operand else width
        found |= {f"{kind}{int(number) + i}" for i in range(count)}
    return found


def parsed(address: int, text: str, upper: int) -> Instruction:
    control = upper >> 41
    guard, rest = re.fullmatch(r"(?:@(!?U?P[\dT])\s+)?(.*)", text).groups()
    op, _, rest = rest.partition(" ")
    operands = [o.strip() for o in re.split(r",(?![^\[]*\])", rest) if o.strip()]
    count, width = results_of(op, operands), width_of(op)
    results, read = set(), registers(guard or "", 1)
    for n, operand in enumerate(operands):
        if n < count and "[" not in operand:
            results |= registers(operand, width)
        else:
            read |= registers(operand, width if op.startswith("ST") and "[" not in operand else 1)
    label = re.search(r"`\((\.L_x_\d+)\)", rest) if op.startswith("BRA") else None
    conditional = guard or "DIV" in op or "ANY" in op or re.match(r"!?U?P\d", rest.strip())
    ends = op.startswith(("BRA", "EXIT", "RET")) and not conditional
    return Instruction(address, text, control >> 11 & 63, control >> 5 & 7, control >> 8 & 7, frozenset(results),
                       frozenset(read), label.group(1) if label else "", not ends, op.startswith(("CALL", "DEPBAR")))


def code_sections(data: bytes) -> dict:
    """The sections of machine code of an ELF file of 64 bits."""
    table, = struct.unpack_from("<Q", data, 0x28)
    size, count, names = struct.unpack_from("<HHH", data, 0x3A)
    heads = [struct.unpack_from("<IIQQQQ", data, table + i * size) for i in range(count)]
    found = {}
    for name, _, _, _, offset, length in heads:
        start = heads[names][4] + name
        text = data[start:data.index(b"\0", start)].decode()
        if text.startswith(".text."):
            found[text] = data[offset:offset + length]
    return found


def disassembled(path: pathlib.Path, nvdisasm: str):
    """Of each section of code: its instructions, and at which of them a label stands."""
    code = code_sections(path.read_bytes())
    listing = subprocess.run([nvdisasm, "-c", str(path)], capture_output=True, text=True, check=True).stdout
    instructions, labels = collections.defaultdict(list), collections.defaultdict(dict)
    section, waiting = "", []
    for line in listing.splitlines():
        if head := re.search(r"\.section\s+(\.text\.[^,\s]+)", line):
            section, waiting = head.group(1), []
        elif label := LABEL.match(line):
            waiting.append(label.group(1))
        elif (found := INSTRUCTION.match(line)) and section in code:
            address = int(found.group(1), 16)
            upper, = struct.unpack_from("<Q", code[section], address + 8)
            labels[section].update((name, len(instructions[section])) for name in waiting)
            instructions[section].append(parsed(address, found.group(2), upper))
            waiting = []
    return instructions, labels


def after(state: dict, n: int, one: Instruction, findings: set) -> dict:
    """What is pending after instruction `n`: of a register, (scoreboard, instruction, "result" or "operand")."""
    if one.waits:
        # A result that is there had its operands read.
        done = {who for pending in state.values() for board, who, what in pending
                if what == "result" and one.waits >> board & 1}
        state = {register: frozenset(p for p in pending if not one.waits >> p[0] & 1 and p[1] not in done)
                 for register, pending in state.items()}
    else:
        state = dict(state)
    # Two LDTM fill half of the lanes of a register each.
    for register in one.operands if one.text.startswith("LDTM") else one.operands | one.results:
        for _, who, what in state.get(register, ()):
            if what == "result":
                findings.add((who, n, register))
    for register in one.results:
        state.pop(register, None)
        if one.writes_under != 7:
            state[register] = frozenset({(one.writes_under, n, "result")})
    return {} if one.forgets else {register: pending for register, pending in state.items() if pending}


def findings_of(path: pathlib.Path, nvdisasm: str) -> list:
    lines = []
    instructions, labels = disassembled(path, nvdisasm)
    for section, code in instructions.items():
        findings, before, work = set(), {0: {}}, [0]
        while work:
            n = work.pop()
            state = after(before[n], n, code[n], findings)
            follow = [n + 1] if code[n].goes_on and n + 1 < len(code) else []
            if code[n].target in labels[section]:
                follow.append(labels[section][code[n].target])
            for m in follow:
                old = before.get(m)
                joined = {r: (old or {}).get(r, frozenset()) | p for r, p in state.items()}
                if old is None or any(p != old.get(r) for r, p in joined.items()):
                    before[m] = {**(old or {}), **joined}
                    work.append(m)
        for who, n, register in sorted(findings, key=lambda f: (f[1], f[0])):
            lines.append(f"{register} of {code[who].address:05x} {code[who].text} (scoreboard {code[who].writes_under})"
                         f" is not waited for at {code[n].address:05x} {code[n].text}")
    return lines


def without_a_wait(path: pathlib.Path, nvdisasm: str, to: pathlib.Path) -> None:
    """A copy of a cubin where the first use of what LDS.64 loads does not wait: this check must find it."""
    data = bytearray(path.read_bytes())
    instructions, _ = disassembled(path, nvdisasm)
    for section, code in instructions.items():
        start = data.find(code_sections(bytes(data))[section])
        for n, load in enumerate(code):
            use = next((u for u in code[n + 1:n + 40] if load.results & u.operands or not u.goes_on), None)
            if load.text.startswith("LDS.64") and use and use.goes_on:
                between = [i for i in code[n + 1:] if i.address <= use.address]
                for i in between:
                    at = start + i.address + 8
                    upper, = struct.unpack_from("<Q", data, at)
                    struct.pack_into("<Q", data, at, upper & ~(1 << 41 + 11 + load.writes_under))
                to.write_bytes(data)
                return
    raise SystemExit("check_sass.py: the first config has no LDS.64 to try the check on")


def find_nvdisasm() -> str:
    if named := os.environ.get("KILN_NVDISASM"):
        return named
    places = [shutil.which("nvdisasm"), os.environ.get("CUDA_HOME", "/usr/local/cuda") + "/bin/nvdisasm",
              *map(str, ROOT.glob(".venv/lib/python3*/site-packages/nvidia/cu13/bin/nvdisasm"))]
    return next((p for p in places if p and os.access(p, os.X_OK)), "")


def shipped() -> list:
    return sorted(p.stem for target in TARGETS for p in (ROOT / "configs" / target).glob("*.json"))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("kiln", nargs="?", default=str(ROOT / "build/kiln"))
    parser.add_argument("configs", nargs="*")
    parser.add_argument("--all", action="store_true")
    options = parser.parse_args()
    nvdisasm = find_nvdisasm()
    if not nvdisasm:
        print("check_sass.py: no nvdisasm; nothing checked (scripts/setup.sh installs it)")
        return 0
    names = options.configs or (shipped() if options.all else CONFIGS)
    with tempfile.TemporaryDirectory() as folder:
        def checked(name: str) -> tuple:
            path = pathlib.Path(name)
            if path.suffix != ".cubin":
                path = pathlib.Path(folder) / (name.replace("/", "_") + ".cubin")
                done = subprocess.run([options.kiln, "compile", name, "--emit", "cubin", "--out", str(path)],
                                      capture_output=True, text=True)
                if done.returncode != 0:
                    return name, [f"does not compile: {done.stderr.strip()}"]
            return name, findings_of(path, nvdisasm)

        wrong = 0
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            for name, lines in pool.map(checked, names):
                wrong += bool(lines)
                for line in lines:
                    print(f"{name}: {line}")
        if not options.configs:
            broken = pathlib.Path(folder) / "broken.cubin"
            without_a_wait(pathlib.Path(folder) / (CONFIGS[0] + ".cubin"), nvdisasm, broken)
            if not findings_of(broken, nvdisasm):
                print("check_sass.py: a wait taken out of a kernel is not found")
                wrong += 1
    print(f"{len(names)} kernels looked at, {wrong} with findings")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
