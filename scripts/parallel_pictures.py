"""The pictures of docs/context-parallel.md: zigzag, ring, merge. Used by make_pictures.py."""
TIP = ('<defs><marker id="a" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
       '<path d="M0 0L8 4L0 8z" fill="#8c959f"/></marker></defs>')
RANKS = ["#9cc3f0", "#f5b98a", "#a5d6a0", "#d3b4dd"]  # dark text stands on all of them
PLAIN = "#d0d7de"


def box(x, y, w, h, fill, text=""):
    label = f'<text class="c" x="{x + w / 2}" y="{y + h / 2 + 5}" text-anchor="middle">{text}</text>' if text else ""
    return f'<rect x="{x}" y="{y}" width="{w - 2}" height="{h - 2}" fill="{fill}"/>{label}'


def arrow(x1, y1, x2, y2):
    return f'<line class="l" x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}" marker-end="url(#a)"/>'


def shares(owners):
    """Percent of the causal work by rank: a part attends to all before it and half of itself."""
    work = [0.0] * (max(owners) + 1)
    for part, rank in enumerate(owners):
        work[rank] += part + 0.5
    return ", ".join(f"{100 * w / sum(work):.0f} %" for w in work)


def zigzag(svg, name):
    """Causal work of a sequence in eight parts on four ranks, in order and as zigzag halves."""
    side, body = 40, ['<text x="20" y="24">Causal work of a sequence on four ranks</text>',
                      '<text class="m" x="20" y="46">rows: queries, by the rank that has them; columns: keys</text>']
    for x0, title, owners in ((50, "in order", [0, 0, 1, 1, 2, 2, 3, 3]), (460, "zigzag", [0, 1, 2, 3, 3, 2, 1, 0])):
        body.append(f'<text x="{x0}" y="76">{title}</text>')
        for row, rank in enumerate(owners):
            y = 88 + row * side
            body.append(f'<text x="{x0 - 20}" y="{y + 25}">{rank}</text>')
            body += [box(x0 + column * side, y, side, side, RANKS[rank]) for column in range(row)]
            x = x0 + row * side
            body.append(f'<path d="M{x} {y}l{side - 2} {side - 2}h-{side - 2}z" fill="{RANKS[rank]}"/>')
        body.append(f'<text class="m" x="{x0}" y="434">share by rank: {shares(owners)}</text>')
    svg(name, 840, 450, body)


def ring(svg, name):
    """Three ranks: the keys of the next step come while the kernels of this one work."""
    body = [TIP, '<text x="20" y="24">Three ranks, three steps: keys and values of the next step come during this one</text>']
    for rank in range(3):
        y = 50 + rank * 84
        body += [f'<text x="20" y="{y + 22}">rank {rank}</text>', f'<text class="m" x="20" y="{y + 54}">NCCL</text>']
        for step in range(3):
            x, source = 90 + step * 238, (rank - step) % 3
            body.append(box(x, y, 168 if step else 234, 34, RANKS[source], f"Q{rank}, keys of {source}"))
            if step:
                body.append(box(x + 168, y, 66, 34, PLAIN, "merge"))
            if step < 2:
                body.append(box(x, y + 36, 168, 26, RANKS[(source - 1) % 3], f"keys of {(source - 1) % 3} come"))
    svg(name, 840, 346, body + [arrow(90, 320, 760, 320), '<text x="772" y="325">time</text>'])


def merge(svg, name):
    """Decode on two ranks: both merge the same parts."""
    body = [TIP, '<text x="20" y="24">Decode on two ranks: each reads its part of the cache, both merge the same parts</text>']
    rows = (50, 160)
    for rank, y in enumerate(rows):
        body += [f'<text x="20" y="{y + 28}">rank {rank}</text>', box(90, y, 150, 44, RANKS[rank], f"keys of part {rank}"),
                 arrow(240, y + 22, 268, y + 22), box(270, y, 150, 44, RANKS[rank], f"O{rank}, L{rank} in f32")]
        body += [arrow(420, y + 22, 498, other + 22) for other in rows]
        body += [box(500, y, 76, 44, RANKS[0], "O0, L0"), box(576, y, 76, 44, RANKS[1], "O1, L1"), arrow(654, y + 22, 688, y + 22),
                 box(690, y, 130, 44, RANKS[2], "O, L of all")]
    body.append('<text class="m" x="20" y="246">M = max L, w = exp(L - M), O = sum w O / sum w, L = M + log sum w: in the order of ranks, in f32</text>')
    svg(name, 840, 266, body)


def draw(svg):
    zigzag(svg, "context_parallel_zigzag.svg")
    ring(svg, "context_parallel_ring.svg")
    merge(svg, "context_parallel_merge.svg")
