#!/usr/bin/env python3
"""Writes tests/data/ptx_forms_sm100a.txt: forms of the instructions that came with sm_100a, and whether ptxas takes
them ("+") or refuses them ("-").

usage: scripts/blackwell_forms.py [--ptxas PTXAS] [OUTPUT]

Forms are made from the grammar, legal or not; ptxas is the judge. {%r1..4} stands for {%r1,%r2,%r3,%r4}.
"""
import argparse
import itertools
import os
import pathlib
import re
import subprocess
import tempfile

HEAD = """.version 9.0
.target sm_100a
.address_size 64
.visible .entry k(.param .u64 p0, .param .align 64 .b8 map[128]) {
.reg .b8 %b<8>; .reg .b16 %h<64>; .reg .b32 %r<200>; .reg .f32 %f<200>; .reg .b64 %d<200>; .reg .pred %p<8>;
.reg .b128 %q<8>;
.shared .align 1024 .b8 smem[32768];
"""
GROUPS = ("cta_group::1", "cta_group::2")


def allocation():
    for g in GROUPS:
        for space in ("", ".shared::cta"):
            for n in (16, 32, 48, 64, 96, 128, 256, 512, 1024, "%r2"):
                yield f"tcgen05.alloc.{g}.sync.aligned{space}.b32 [{'%r1' if space else '%d1'}], {n};"
        for n in (32, 64, 128, 256, 512, 48, "%r2"):
            yield f"tcgen05.dealloc.{g}.sync.aligned.b32 %r1, {n};"
        yield f"tcgen05.relinquish_alloc_permit.{g}.sync.aligned;"
        yield f"tcgen05.relinquish_alloc_permit.{g};"
    yield "tcgen05.alloc.sync.aligned.b32 [%r1], 32;"


def transfers():
    each = {"32x32b": 1, "16x64b": 1, "16x128b": 2, "16x256b": 4, "16x32bx2": 1}
    for shape, per in each.items():
        for n in (1, 2, 4, 8, 16, 32, 64, 128, 256):
            count = per * n
            if count > 199:
                continue
            registers = f"{{%r1..{count}}}" if count > 1 else "{%r1}"
            split = ", 16" if shape == "16x32bx2" else ""
            for pack in ("", ".pack::16b", ".unpack::16b"):
                yield f"tcgen05.ld.sync.aligned.{shape}.x{n}{pack}.b32 {registers}, [%r199]{split};"
                yield f"tcgen05.st.sync.aligned.{shape}.x{n}{pack}.b32 [%r199]{split}, {registers};"
    yield "tcgen05.ld.sync.aligned.32x32b.x2.b32 {%r1}, [%r199];"
    yield "tcgen05.ld.sync.aligned.32x32b.x1.b32 %r1, [%r199];"
    yield "tcgen05.ld.sync.aligned.32x32b.x2.b32 {%r1, %r2}, [%r199+16];"
    yield "tcgen05.ld.sync.aligned.32x32b.x2.b32 {%f1, %f2}, [ %r199 + 0 ];"
    yield "tcgen05.ld.sync.aligned.16x32bx2.x2.b32 {%r1, %r2}, [%r199], %r3;"
    yield "tcgen05.ld.sync.aligned.32x32b.x2.b32 {%r1, %r2}, [%d1];"
    yield "tcgen05.ld.32x32b.x2.b32 {%r1, %r2}, [%r199];"
    for w in ("ld", "st"):
        yield f"tcgen05.wait::{w}.sync.aligned;"
        yield f"tcgen05.wait::{w};"
    yield "tcgen05.fence::before_thread_sync;"
    yield "tcgen05.fence::after_thread_sync;"


def copies():
    shapes = ("128x256b", "4x256b", "128x128b", "64x128b", "32x128b")
    spreads = ("", ".warpx2::02_13", ".warpx2::01_23", ".warpx4")
    formats = ("", ".b8x16.b6x16_p32", ".b8x16.b4x16_p64", ".b8x16")
    for g, s, w, f in itertools.product(GROUPS, shapes, spreads, formats):
        yield f"tcgen05.cp.{g}.{s}{w}{f} [%r1], %d1;"
    yield "tcgen05.cp.cta_group::1.warpx4.32x128b [%r1], %d1;"
    for g in GROUPS:
        yield f"tcgen05.shift.{g}.down [%r1];"
        yield f"tcgen05.shift.{g} [%r1];"
        for space, multicast in itertools.product(("", ".shared::cluster"), ("", ".multicast::cluster")):
            address = "%r1" if space else "%d1"
            mask = ", %h1" if multicast else ""
            yield f"tcgen05.commit.{g}.mbarrier::arrive::one{space}{multicast}.b64 [{address}]{mask};"
            yield f"tcgen05.commit.{g}.mbarrier::arrive::one{space}{multicast}.b64 [{address}];"
        yield f"tcgen05.commit.{g}.b64 [%d1];"


def products():
    kinds = ("f16", "tf32", "f8f6f4", "i8")
    for g, kind, a in itertools.product(GROUPS, kinds, ("%d1", "[%r2]")):
        head = f"tcgen05.mma.{g}.kind::{kind}"
        tail = f"[%r1], {a}, %d2, %r3"
        for p in ("%p1", "!%p1", "0", "1", "2"):
            yield f"{head} {tail}, {p};"
        four, eight = "{%r4,%r5,%r6,%r7}", "{%r4,%r5,%r6,%r7,%r8,%r9,%r10,%r11}"
        for mask in (four, eight):
            yield f"{head} {tail}, {mask}, %p1;"
        for scale in (0, 15, 16):
            if kind != "i8":  # ptxas 13.0 takes any value there, which PTX forbids
                yield f"{head} {tail}, %p1, {scale};"
        for use in ("fill", "use", "lastuse", "discard", "keep"):
            yield f"{head}.collector::a::{use} {tail}, %p1;"
        yield f"{head}.collector::b0::fill {tail}, %p1;"
        yield f"{head}.block_scale {tail}, [%r4], [%r5], %p1;"
        yield f"{head} [%r1+16], {a}, %d2, 136315024, 1;"
    for g, kind, a in itertools.product(GROUPS, ("mxf8f6f4", "mxf4", "mxf4nvf4"), ("%d1", "[%r2]")):
        for v in ("", ".scale_vec::1X", ".scale_vec::2X", ".scale_vec::4X", ".block16", ".block32"):
            yield f"tcgen05.mma.{g}.kind::{kind}.block_scale{v} [%r1], {a}, %d2, %r3, [%r4], [%r5], %p1;"
        vec = ".block16" if kind == "mxf4nvf4" else ".block32"
        yield f"tcgen05.mma.{g}.kind::{kind}{vec} [%r1], {a}, %d2, %r3, [%r4], [%r5], %p1;"
        yield f"tcgen05.mma.{g}.kind::{kind}.block_scale{vec} [%r1], {a}, %d2, %r3, %p1;"
        for use in ("fill", "use", "lastuse", "discard"):
            yield (f"tcgen05.mma.{g}.kind::{kind}.block_scale{vec}.collector::a::{use} [%r1], {a}, %d2, %r3, [%r4], [%r5], %p1;")
    for g, kind, a in itertools.product(GROUPS, kinds + ("mxf8f6f4",), ("%d1", "[%r2]")):
        yield f"tcgen05.mma.ws.{g}.kind::{kind} [%r1], {a}, %d2, %r3, %p1;"
        yield f"tcgen05.mma.ws.{g}.kind::{kind} [%r1], {a}, %d2, %r3, %p1, %d3;"
        for b, use in itertools.product(("b0", "b1", "b2", "b3", "a"), ("fill", "use", "lastuse", "discard")):
            yield f"tcgen05.mma.ws.{g}.kind::{kind}.collector::{b}::{use} [%r1], {a}, %d2, %r3, %p1;"


def row_shifts():
    for g, kind, a in itertools.product(GROUPS, ("f16", "tf32", "f8f6f4", "i8"), ("%d1", "[%r2]")):
        tail = f"[%r1], {a}, %d2, %r3"
        yield f"tcgen05.mma.{g}.kind::{kind}.ashift {tail}, %p1;"
        yield f"tcgen05.mma.ashift.{g}.kind::{kind} {tail}, 0;"
        yield f"tcgen05.mma.sp.{g}.kind::{kind}.ashift [%r1], {a}, %d2, [%r9], %r3, !%p1;"
        yield f"tcgen05.mma.ws.{g}.kind::{kind}.ashift {tail}, %p1;"
        for use in ("fill", "use", "lastuse", "discard"):
            yield f"tcgen05.mma.{g}.kind::{kind}.ashift.collector::a::{use} {tail}, %p1;"
            yield f"tcgen05.mma.{g}.kind::{kind}.collector::a::{use}.ashift {tail}, %p1;"
    for kind in ("mxf8f6f4", "mxf4", "mxf4nvf4"):
        vec = ".block16" if kind == "mxf4nvf4" else ".block32"
        yield f"tcgen05.mma.cta_group::1.kind::{kind}.block_scale{vec}.ashift [%r1], [%r2], %d2, %r3, [%r4], [%r5], %p1;"
    for mask in ("0", "549755813888", "%r4", "%d3", "%p2"):
        yield f"tcgen05.mma.ws.cta_group::1.kind::f16 [%r1], %d1, %d2, %r3, %p1, {mask};"
        yield f"tcgen05.mma.ws.sp.cta_group::1.kind::f16 [%r1], %d1, %d2, [%r9], %r3, %p1, {mask};"


def sparse_products():
    for g, kind, a in itertools.product(GROUPS, ("f16", "tf32", "f8f6f4", "i8"), ("%d1", "[%r2]")):
        head, tail = f"tcgen05.mma.sp.{g}.kind::{kind}", f"[%r1], {a}, %d2, [%r9], %r3"
        four, eight = "{%r4,%r5,%r6,%r7}", "{%r4,%r5,%r6,%r7,%r8,%r9,%r10,%r11}"
        for p in ("%p1", "!%p1", "0"):
            yield f"{head} {tail}, {p};"
        for mask in (four, eight):
            yield f"{head} {tail}, {mask}, %p1;"
        if kind != "i8":
            yield f"{head} {tail}, %p1, 3;"
        for use in ("fill", "use", "lastuse", "discard"):
            yield f"{head}.collector::a::{use} {tail}, %p1;"
        yield f"{head} [%r1], {a}, %d2, %r3, %p1;"
        yield f"{head} [%r1+16], {a}, %d2, [%r9 + 4], 136315028, 1;"
        ws = f"tcgen05.mma.ws.sp.{g}.kind::{kind}"
        yield f"{ws} {tail}, %p1;"
        yield f"{ws} {tail}, %p1, %d3;"
        yield f"{ws}.collector::b2::fill {tail}, %p1;"
    for g, kind, a in itertools.product(GROUPS, ("mxf8f6f4", "mxf4", "mxf4nvf4"), ("%d1", "[%r2]")):
        for v in ("", ".scale_vec::1X", ".scale_vec::2X", ".scale_vec::4X", ".block16", ".block32"):
            yield f"tcgen05.mma.sp.{g}.kind::{kind}.block_scale{v} [%r1], {a}, %d2, [%r9], %r3, [%r4], [%r5], %p1;"
        vec = ".block16" if kind == "mxf4nvf4" else ".block32"
        yield f"tcgen05.mma.sp.{g}.kind::{kind}.block_scale{vec} [%r1], {a}, %d2, %r3, [%r4], [%r5], %p1;"
        yield f"tcgen05.mma.ws.sp.{g}.kind::{kind}.block_scale{vec} [%r1], {a}, %d2, [%r9], %r3, [%r4], [%r5], %p1;"


def tensor_copies():
    sp = {"shared::cluster": "smem", "shared::cta": "smem"}
    for n, s, group in itertools.product((1, 2, 3, 4, 5), sp, ("", ".cta_group::1", ".cta_group::2")):
        c = "{" + ",".join(f"%r{i}" for i in range(1, n + 1)) + "}"
        bar = "mbarrier::complete_tx::bytes"
        yield f"cp.async.bulk.tensor.{n}d.{s}.global.tile.{bar}{group} [%r10], [%d1, {c}], [%r11];"
        yield f"cp.async.bulk.tensor.{n}d{group}.{s}.global.{bar} [%r10], [%d1, {c}], [%r11];"
    g4 = "{%r1,%r2,%r3,%r4,%r5}"
    for s, group, hint in itertools.product(sp, ("", ".cta_group::1", ".cta_group::2"), ("", ".L2::cache_hint")):
        policy = ", %d9" if hint else ""
        yield f"cp.async.bulk.tensor.2d.{s}.global.tile::gather4.mbarrier::complete_tx::bytes{group}{hint} [%r10], [%d1, {g4}], [%r11]{policy};"
    yield f"cp.async.bulk.tensor.2d.shared::cluster.global.tile::gather4.mbarrier::complete_tx::bytes.multicast::cluster [%r10], [%d1, {g4}], [%r11], %h1;"
    yield f"cp.async.bulk.tensor.2d.shared::cluster.global.tile::gather4.mbarrier::complete_tx::bytes.multicast::cluster.cta_group::2 [%r10], [%d1, {g4}], [%r11], %h1;"
    yield f"cp.async.bulk.tensor.2d.tile::gather4.shared::cta.global.mbarrier::complete_tx::bytes [%r10], [%d1, {g4}], [%r11];"
    yield "cp.async.bulk.tensor.2d.shared::cta.global.tile::gather4.mbarrier::complete_tx::bytes [%r10], [%d1, {%r1,%r2,%r3}], [%r11];"
    yield f"cp.async.bulk.tensor.2d.global.shared::cta.tile::scatter4.bulk_group [%d1, {g4}], [%r10];"
    yield f"cp.async.bulk.tensor.2d.global.shared::cta.tile::scatter4.bulk_group.L2::cache_hint [%d1, {g4}], [%r10], %d9;"
    yield f"cp.async.bulk.prefetch.tensor.2d.L2.global.tile::gather4 [%d1, {g4}];"


def wide_copies():
    bar = "mbarrier::complete_tx::bytes"
    for n, s, mode in itertools.product((2, 3, 4, 5), ("shared::cluster", "shared::cta"), ("im2col::w", "im2col::w::128")):
        c = "{" + ",".join(f"%r{i}" for i in range(1, n + 1)) + "}"
        for info in (", {%h1,%h2}", ", {2,0}", ", {%h1}", ", {%h1,%h2,%h3}", ""):
            yield f"cp.async.bulk.tensor.{n}d.{s}.global.{mode}.{bar} [%r10], [%d1, {c}], [%r11]{info};"
        yield f"cp.async.bulk.tensor.{n}d.{mode}.{s}.global.{bar} [%r10], [%d1, {c}], [%r11], {{%h1,%h2}};"
        for group in (".cta_group::1", ".cta_group::2"):
            yield f"cp.async.bulk.tensor.{n}d.{s}.global.{mode}.{bar}{group} [%r10], [%d1, {c}], [%r11], {{%h1,%h2}};"
        yield f"cp.async.bulk.tensor.{n}d.{s}.global.{mode}.{bar}.L2::cache_hint [%r10], [%d1, {c}], [%r11], {{%h1,%h2}}, %d9;"
        yield f"cp.async.bulk.tensor.{n}d.shared::cluster.global.{mode}.{bar}.multicast::cluster [%r10], [%d1, {c}], [%r11], {{%h1,%h2}}, %h3;"
        yield f"cp.async.bulk.prefetch.tensor.{n}d.L2.global.{mode} [%d1, {c}], {{%h1,%h2}};"
        yield f"cp.async.bulk.prefetch.tensor.{n}d.L2.global.{mode} [%d1, {c}];"
        yield f"cp.async.bulk.tensor.{n}d.global.shared::cta.{mode}.bulk_group [%d1, {c}], [%r10];"


def map_fields():
    for space, address in (("global.", "%d1"), ("shared::cta.", "%r1"), ("", "%d1")):
        for field in ("elemtype", "interleave_layout", "swizzle_mode", "fill_mode", "swizzle_atomicity"):
            for value in ("0", "1", "2", "3", "4", "13", "15", "16", "-1", "%r2"):
                yield f"tensormap.replace.tile.{field}.{space}b1024.b32 [{address}], {value};"
        yield f"tensormap.replace.tile.swizzle_atomicity.{space}b1024.b64 [{address}], 1;"
        yield f"tensormap.replace.tile.swizzle_atomicity.{space}b1024.b32 [{address}], 0, 1;"


def launch_control():
    for space, cast in itertools.product(("", ".shared::cta"), ("", ".multicast::cluster::all")):
        a = "%r1" if space else "%d1"
        m = "%r2" if space else "%d2"
        yield f"clusterlaunchcontrol.try_cancel.async{space}.mbarrier::complete_tx::bytes{cast}.b128 [{a}], [{m}];"
    yield "clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 %p1, %q1;"
    yield "clusterlaunchcontrol.query_cancel.get_first_ctaid.v4.b32.b128 {%r1,%r2,%r3,%r4}, %q1;"
    yield "clusterlaunchcontrol.query_cancel.get_first_ctaid.v4.b32.b128 {%r1,%r2,%r3,_}, %q1;"
    for x in "xyz":
        yield f"clusterlaunchcontrol.query_cancel.get_first_ctaid::{x}.b32.b128 %r1, %q1;"


def memory():
    for t, n, r in (("b32", 8, "%r"), ("f32", 8, "%f"), ("u32", 8, "%r"), ("b64", 4, "%d"), ("b16", 8, "%h")):
        regs = "{" + ",".join(f"{r}{i}" for i in range(1, n + 1)) + "}"
        for hint in ("", ".L1::no_allocate", ".L2::evict_first", ".L2::evict_last"):
            yield f"ld.global{hint}.v{n}.{t} {regs}, [%d9];"
            yield f"st.global{hint}.v{n}.{t} [%d9], {regs};"
        yield f"ld.global.nc.v{n}.{t} {regs}, [%d9];"
        yield f"ld.shared.v{n}.{t} {regs}, [%r9];"
    for n, regs in ((1, "{%r1,%r2}"), (2, "{%r1,%r2,%r3,%r4}")):
        yield f"ldmatrix.sync.aligned.m16n16.x{n}.trans.shared.b8 {regs}, [%r9];"
        for f in ("b6x16_p32", "b4x16_p64"):
            yield f"ldmatrix.sync.aligned.m16n16.x{n}.trans.shared.b8x16.{f} {regs}, [%r9];"
    for n, regs in ((1, "{%r1}"), (2, "{%r1,%r2}"), (4, "{%r1,%r2,%r3,%r4}")):
        for f in ("b6x16_p32", "b4x16_p64"):
            yield f"ldmatrix.sync.aligned.m8n16.x{n}.shared.b8x16.{f} {regs}, [%r9];"
        yield f"stmatrix.sync.aligned.m16n8.x{n}.trans.shared.b8 [%r9], {regs};"
    yield "st.bulk.weak.shared::cta [%d1], %d2, 0;"
    for head, to in ((".weak.shared::cta", "%r1"), (".shared::cta.weak", "%r1 + 0"), (".shared::cta", "%r1+8"), ("", "%d1"), (".weak", "%d1")):
        for size in ("%d2", "0", "8", "4096", "12", "16777216", "16777224", "-8", "%h2"):
            yield f"st.bulk{head} [{to}], {size}, 0;"
    for value in ("1", "%d3"):
        yield f"st.bulk.weak [%d1], %d2, {value};"
    for head in (".weak.shared", ".weak.shared::cluster", ".relaxed.shared::cta", ".weak.global", ".weak.shared::cta.b32"):
        yield f"st.bulk{head} [%d1], 64, 0;"
    yield "st.bulk.weak.shared::cta [%d1], 64;"


def arithmetic():
    for op, c in (("add", ""), ("sub", ""), ("mul", ""), ("fma", ", %d4")):
        for rnd, ftz in itertools.product(("", ".rn", ".rz", ".rm", ".rp"), ("", ".ftz", ".sat")):
            yield f"{op}{rnd}{ftz}.f32x2 %d1, %d2, %d3{c};"
    for op, ftz, nan, ab in itertools.product(("min", "max"), ("", ".ftz"), ("", ".NaN"), ("", ".abs", ".xorsign.abs")):
        yield f"{op}{ftz}{nan}{ab}.f32 %f1, %f2, %f3, %f4;"
    for op, ab, nan in itertools.product(("min", "max", "add"), ("", ".abs"), ("", ".NaN")):
        yield f"redux.sync.{op}{ab}{nan}.f32 %f1, %f2, %r1;"
    for op, rnd, sat, t in itertools.product(("add", "sub"), ("", ".rn", ".rz", ".rm", ".rp"), ("", ".sat"), ("f16", "bf16")):
        yield f"{op}{rnd}{sat}.f32.{t} %f1, %h1, %f2;"
    for rnd, sat, t in itertools.product((".rn", ".rz", ".rm", ".rp"), ("", ".sat"), ("f16", "bf16")):
        yield f"fma{rnd}{sat}.f32.{t} %f1, %h1, %h2, %f2;"
    for t in ("e2m3x2", "e3m2x2", "e2m1x2", "e4m3x2", "e5m2x2"):
        d = "%b1" if t == "e2m1x2" else "%h1"
        for relu in ("", ".relu"):
            yield f"cvt.rn.satfinite{relu}.{t}.f32 {d}, %f1, %f2;"
            yield f"cvt.rn{relu}.f16x2.{t} %r1, {d};"
    for rnd, sat in itertools.product((".rz", ".rp", ".rn"), ("", ".satfinite")):
        yield f"cvt{rnd}{sat}.ue8m0x2.f32 %h1, %f1, %f2;"
        yield f"cvt{rnd}{sat}.ue8m0x2.bf16x2 %h1, %r1;"
    yield "cvt.rn.bf16x2.ue8m0x2 %r1, %h1;"
    for t, relu, sat in itertools.product(("bf16x2", "f16x2"), ("", ".relu"), ("", ".satfinite")):
        yield f"cvt.rs{relu}{sat}.{t}.f32 %r1, %f1, %f2, %r2;"
    for t, relu in itertools.product(("e4m3x4", "e5m2x4", "e2m3x4", "e3m2x4", "e2m1x4"), ("", ".relu")):
        d = "%h1" if t == "e2m1x4" else "%r1"
        yield f"cvt.rs{relu}.satfinite.{t}.f32 {d}, {{%f1, %f2, %f3, %f4}}, %r2;"


def refused(ptxas, forms):
    """Indices of the forms that ptxas refuses; forms of both groups are compiled apart, as it takes one a kernel."""
    bad = set()
    work = pathlib.Path(tempfile.mkdtemp())
    for batch in itertools.batched(range(len(forms)), 60) if hasattr(itertools, "batched") else (
            range(i, min(i + 60, len(forms))) for i in range(0, len(forms), 60)):
        for group in GROUPS:
            left = [i for i in batch if ("cta_group::2" in forms[i]) == (group == "cta_group::2")]
            while left:
                text = HEAD + "".join("{ " + expand(forms[i]) + " }\n" for i in left) + "ret; }\n"
                (work / "f.ptx").write_text(text)
                done = subprocess.run([ptxas, "-arch=sm_100a", "-O0", "-o", os.devnull, str(work / "f.ptx")],
                                      capture_output=True, text=True)
                if done.returncode == 0:
                    break
                first = HEAD.count("\n") + 1
                lines = {int(n) - first for n in re.findall(r"line (\d+); error", done.stderr)}
                lines = {n for n in lines if 0 <= n < len(left)}
                if not lines:  # not said where: one by one
                    lines = {n for n, i in enumerate(left) if len(left) == 1 or refused(ptxas, [forms[i]])}
                    if not lines:
                        raise SystemExit(done.stderr)
                bad |= {left[n] for n in lines}
                left = [i for n, i in enumerate(left) if n not in lines]
    return bad


def expand(text):
    return re.sub(r"\{(%[a-z]+)(\d+)\.\.(\d+)\}",
                  lambda m: "{" + ",".join(f"{m[1]}{i}" for i in range(int(m[2]), int(m[3]) + 1)) + "}", text)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--ptxas", default="ptxas")
    parser.add_argument("output", nargs="?", default=str(pathlib.Path(__file__).parent.parent / "tests/data/ptx_forms_sm100a.txt"))
    given = parser.parse_args()
    forms = []
    for part in (allocation, transfers, copies, products, row_shifts, sparse_products, tensor_copies, wide_copies, map_fields, launch_control, memory, arithmetic):
        forms += list(dict.fromkeys(part()))
    bad = refused(given.ptxas, forms)
    with open(given.output, "w") as out:
        out.write("# Forms of sm_100a, made by scripts/blackwell_forms.py: + ptxas 13.0 takes it, - it refuses it. "
                  "{%r1..4} stands for {%r1,%r2,%r3,%r4}.\n"
                  "# See tests/emulator/tcgen05_forms.cpp.\n")
        for i, form in enumerate(forms):
            out.write(("- " if i in bad else "+ ") + form + "\n")
    print(f"{len(forms) - len(bad)} forms taken, {len(bad)} refused")


main()
