// The cluster as it sees itself: who sees whom, and how much flows. A split is drawn as a split.
import { latest, names, sample, sides } from "./live";
import { bytes, count, short } from "./words";

const narrow = matchMedia("(max-width: 760px)");
const size = () => (narrow.matches ? { width: 400, height: 400 } : { width: 760, height: 400 });

function places(SIZE: { width: number; height: number }): Map<string, [number, number]> {
  const groups = sides.value;
  const found = new Map<string, [number, number]>();
  groups.forEach((group, index) => {
    // Each side has its own part of the width, by its size.
    const before = groups.slice(0, index).reduce((sum, one) => sum + one.length + 0.6, 0);
    const all = groups.reduce((sum, one) => sum + one.length + 0.6, 0);
    const centre = ((before + (group.length + 0.6) / 2) / all) * SIZE.width;
    const reach = Math.min(SIZE.height / 2 - 70, ((group.length + 0.6) / all) * SIZE.width * 0.5 - 60);
    const radius = group.length === 1 ? 0 : Math.max(50, reach);
    group.forEach((name, turn) => {
      const angle = (turn / group.length) * 2 * Math.PI - Math.PI / 2;
      // Two alone lie beside each other, for the width; beside others they stand, so that no arrow runs through one.
      const lie = group.length === 2 && groups.length === 1;
      const wide = lie ? 1.6 : 1.35;
      const x = centre + Math.cos(angle + (lie ? Math.PI / 2 : 0)) * Math.min(radius * wide, reach * 1.5);
      // What stands below a node needs its room.
      found.set(name, [
        Math.min(SIZE.width - 66, Math.max(66, x)),
        SIZE.height / 2 + Math.sin(angle + (lie ? Math.PI / 2 : 0)) * radius,
      ]);
    });
  });
  // In the middle, since three nodes hang lower than they stand.
  const heights = [...found.values()].map(([, y]) => y);
  const off = (Math.min(...heights) + Math.max(...heights)) / 2 - SIZE.height / 2;
  for (const [name, [x, y]] of found) found.set(name, [x, y - off]);
  return found;
}

export function ClusterMap(props: { onPick: (node: string) => void; picked: string }) {
  const SIZE = size();
  const where = places(SIZE);
  // No higher than what stands in it, with what stands above and below nodes.
  const heights = [...where.values()].map(([, y]) => y);
  const [top, bottom] = [Math.min(...heights) - 76, Math.max(...heights) + 76];
  const pulses = new Map((sample.value?.nodes ?? []).map((pulse) => [pulse.node, pulse]));
  const edges = [];
  for (const from of names.value)
    for (const to of names.value) {
      if (from === to) continue;
      const seen = pulses.get(from)?.sees[to];
      if (!seen) continue;
      const [x1, y1] = where.get(from)!;
      const [x2, y2] = where.get(to)!;
      const length = Math.hypot(x2 - x1, y2 - y1) || 1;
      // The two directions run beside each other.
      const [dx, dy] = [((y2 - y1) / length) * 7, (-(x2 - x1) / length) * 7];
      const cut = 34 / length;
      const [ax, ay] = [x1 + (x2 - x1) * cut + dx, y1 + (y2 - y1) * cut + dy];
      const [bx, by] = [x2 - (x2 - x1) * cut + dx, y2 - (y2 - y1) * cut + dy];
      const kind = seen.status === "online" ? (seen.link === "up" ? "good" : "warn") : seen.status === "suspect" ? "warn" : "bad";
      const flow = latest(from)?.forwarded[to] ?? 0;
      const text = `${from} sees ${to} as ${seen.status}, link ${seen.link}${flow ? `, sends ${bytes(flow)}/s` : ""}`;
      edges.push(
        <g key={`${from} ${to}`} class={`edge ${kind}`}>
          <title>{text}</title>
          <line x1={ax} y1={ay} x2={bx} y2={by} stroke-width={1.5 + Math.min(5, Math.log10(1 + flow / 100))} marker-end={`url(#tip-${kind})`} />
          {flow >= 1 && (
            <text x={ax + (bx - ax) * 0.3 + dx * 1.4} y={ay + (by - ay) * 0.3 + dy * 1.4 + 3}>
              {bytes(flow)}/s
            </text>
          )}
        </g>,
      );
    }
  return (
    <svg class="map" viewBox={`0 ${top} ${SIZE.width} ${bottom - top}`} role="group" aria-label="Cluster map">
      <defs>
        {["good", "warn", "bad"].map((kind) => (
          <marker key={kind} id={`tip-${kind}`} viewBox="0 0 8 8" refX="6" refY="4" markerWidth="7" markerHeight="7" markerUnits="userSpaceOnUse" orient="auto">
            <path d="M0 0 8 4 0 8Z" class={`tip ${kind}`} />
          </marker>
        ))}
      </defs>
      {edges}
      {names.value.map((name) => {
        const [x, y] = where.get(name)!;
        const pulse = pulses.get(name);
        const rate = latest(name);
        // Names stand away from the middle, where the arrows are.
        const [first, second] = y < SIZE.height / 2 - 10 ? [-53, -38] : [46, 61];
        const kind = !pulse ? "bad" : pulse.state === "running" ? "good" : "warn";
        return (
          <g
            key={name}
            class={`node ${kind}${props.picked === name ? " picked" : ""}`}
            transform={`translate(${x.toFixed(1)} ${y.toFixed(1)})`}
            role="button"
            tabIndex={0}
            aria-label={`${name}, ${pulse ? pulse.state : "does not answer"}`}
            onClick={() => props.onPick(name)}
            onKeyDown={(event) => event.key === "Enter" && props.onPick(name)}
          >
            <circle r="28" />
            <text class="big" y="-2">
              {pulse ? count(pulse.connections) : "?"}
            </text>
            <text y="12">{!pulse ? "silent" : pulse.connections === 1 ? "client" : "clients"}</text>
            <text class="name" y={first}>
              {short(name)}
              {name === sample.value?.asked ? " · asked" : ""}
            </text>
            <text class="rate" y={second}>
              {rate ? `${count(rate.received)} in · ${count(rate.sent)} out /s` : ""}
            </text>
          </g>
        );
      })}
    </svg>
  );
}
