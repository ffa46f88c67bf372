// The cluster as it sees itself: who sees whom, and how much flows. A split is drawn as a split.
//
// Two nodes that see each other, with links both ways, have one line. Whatever is not so has an arrow each way, since
// who sees whom need not be mutual. With many nodes lines are faint, and those of the node that is pointed at are not.
import { useSignal } from "@preact/signals";
import type { JSX } from "preact";
import { latest, names, sample, sides, type Pulse } from "./live";
import { brief, bytes, count } from "./words";

const narrow = matchMedia("(max-width: 760px)");
/** Nodes of which all flows are labelled, without being pointed at. */
const FEW = 4;
/** Nodes that have their rates below their names. */
const SOME = 8;
/** Where on its line a label may stand, the best first: towards the other node, where lines are apart. */
const STANDS = [0.68, 0.6, 0.52, 0.76, 0.44, 0.36];

interface Size {
  width: number;
  height: number;
  /** Of a node's circle. */
  radius: number;
  /** What names take beside the outermost nodes, and above and below. */
  beside: number;
  above: number;
}

function sizes(nodes: number): Size {
  const phone = narrow.matches;
  const radius = nodes <= SOME ? 28 : nodes <= 14 ? 22 : 18;
  if (phone) return { width: 400, height: nodes <= SOME ? 400 : 520, radius: Math.min(radius, 24), beside: nodes <= SOME ? 66 : 90, above: nodes <= SOME ? 72 : 46 };
  return { width: 760, height: nodes <= SOME ? 400 : 470, radius, beside: nodes <= SOME ? 84 : 110, above: nodes <= SOME ? 76 : 52 };
}

type Place = { x: number; y: number; angle: number };
type Box = { left: number; right: number; top: number; bottom: number };

const meet = (one: Box, other: Box) =>
  one.left < other.right && other.left < one.right && one.top < other.bottom && other.top < one.bottom;

/** About what a line of text takes, of `size` pixels, around x and above y; `side` is where it stands: left, middle, right. */
function boxOf(text: string, x: number, y: number, size: number, side = 0): Box {
  const width = text.length * size * 0.62 + 4;
  const left = side > 0 ? x : side < 0 ? x - width : x - width / 2;
  return { left, right: left + width, top: y - size, bottom: y + size * 0.3 };
}

function places(size: Size): Map<string, Place> {
  const groups = sides.value;
  const found = new Map<string, Place>();
  const share = (group: string[]) => group.length + 0.6;
  const all = groups.reduce((sum, one) => sum + share(one), 0);
  let before = 0;
  for (const group of groups) {
    // Each side has its own part of the width, by its size.
    const width = (share(group) / all) * size.width;
    const centre = (before / all) * size.width + width / 2;
    before += share(group);
    const tall = group.length === 1 ? 0 : size.height / 2 - size.above;
    const wide = group.length === 1 ? 0 : Math.min(Math.max(width / 2 - size.beside, size.radius * 1.5), tall * (group.length <= SOME ? 1.6 : 1.9));
    group.forEach((name, turn) => {
      // Two alone lie beside each other, for the width; beside others they stand, so that no line runs through one.
      const lie = group.length === 2 && groups.length === 1;
      const angle = (turn / group.length) * 2 * Math.PI - (lie ? Math.PI : Math.PI / 2);
      found.set(name, { x: centre + Math.cos(angle) * wide, y: size.height / 2 + Math.sin(angle) * tall, angle });
    });
  }
  return found;
}

/** Where a name stands, and its rate below it, from the middle of its node: away from the middle, where the lines are. */
function titleOf({ y, angle }: Place, size: Size, few: boolean, rated: boolean) {
  const [cos, sin] = [Math.cos(angle), Math.sin(angle)];
  const away = size.radius + 9;
  if (few) {
    const upper = y < size.height / 2 - 10;
    const at = { x: 0, y: upper ? -size.radius - (rated ? 25 : 10) : size.radius + 18 };
    return { side: 0, at, below: upper ? -size.radius - 10 : size.radius + 33 };
  }
  const side = Math.abs(cos) < 0.15 ? 0 : Math.sign(cos);
  const at = side ? { x: cos * away, y: sin * away + 4 } : { x: 0, y: sin < 0 ? -away : away + 9 };
  return { side, at, below: 0 };
}

const kindOf = (seen: Pulse["sees"][string]) =>
  seen.status === "online"
    ? seen.link === "up"
      ? "good"
      : "warn"
    : seen.status === "suspect" || seen.status === "stopped"
      ? "warn"
      : "bad";

export function ClusterMap(props: { onPick: (node: string) => void; picked: string }) {
  const over = useSignal("");
  const all = names.value;
  const size = sizes(all.length);
  const where = places(size);
  const pulses = new Map((sample.value?.nodes ?? []).map((pulse) => [pulse.node, pulse]));
  const looked = over.value || props.picked;
  // Names before the @ do, as long as they tell nodes apart.
  const distinct = new Set(all.map(brief)).size === all.length;
  const called = (name: string) => {
    const text = distinct ? brief(name) : name;
    const room = all.length > SOME ? 14 : 22;
    return text.length > room ? `${text.slice(0, room - 1)}…` : text;
  };
  const few = all.length <= SOME;
  const titles = new Map(all.map((name) => [name, titleOf(where.get(name)!, size, few, !!latest(name))]));
  const written = (name: string) => called(name) + (name === sample.value?.asked ? (few ? " · asked" : " •") : "");
  const rated = (name: string) => {
    const rate = latest(name);
    return few && rate ? `${count(rate.received)} in · ${count(rate.sent)} out /s` : "";
  };
  // What no label may cover: circles, names, rates, and labels before it.
  const full: Box[] = all.flatMap((name) => {
    const { x, y } = where.get(name)!;
    const { side, at, below } = titles.get(name)!;
    const radius = size.radius + 2;
    return [
      { left: x - radius, right: x + radius, top: y - radius, bottom: y + radius },
      boxOf(written(name), x + at.x, y + at.y, 13, side),
      boxOf(rated(name), x, y + below, 11),
    ];
  });
  const edges = [];
  const labels: JSX.Element[] = [];
  for (const [number, one] of all.entries())
    for (const other of all.slice(number + 1)) {
      const [there, back] = [pulses.get(one)?.sees[other], pulses.get(other)?.sees[one]];
      const [from, to] = [where.get(one)!, where.get(other)!];
      const length = Math.hypot(to.x - from.x, to.y - from.y) || 1;
      const [ux, uy] = [(to.x - from.x) / length, (to.y - from.y) / length];
      const near = looked === one || looked === other;
      const shade = near ? " near" : looked || all.length > SOME ? " far" : "";
      const flows = [latest(one)?.forwarded[other] ?? 0, latest(other)?.forwarded[one] ?? 0] as const;
      const thick = (flow: number) => 1.5 + Math.min(5, Math.log10(1 + flow / 100));
      const healthy = there && back && kindOf(there) === "good" && kindOf(back) === "good";
      const point = (at: number, aside: number) => [from.x + ux * at + uy * aside, from.y + uy * at - ux * aside] as const;
      const sight = (a: string, b: string, seen: Pulse["sees"][string], flow: number) =>
        `${a} sees ${b} as ${seen.status}, link ${seen.link}${flow ? `, sends ${bytes(flow)}/s` : ""}`;
      if (healthy) {
        edges.push(
          <g key={`${one} ${other}`} class={`edge good${shade}`}>
            <title>{`${sight(one, other, there, flows[0])}; ${sight(other, one, back, flows[1])}`}</title>
            <line x1={from.x} y1={from.y} x2={to.x} y2={to.y} class="reach" />
            <line x1={from.x} y1={from.y} x2={to.x} y2={to.y} stroke-width={thick(flows[0] + flows[1])} />
          </g>,
        );
      } else {
        for (const [seen, a, b, flow, turned] of [[there, one, other, flows[0], 1], [back, other, one, flows[1], -1]] as const) {
          if (!seen) continue;
          // The two directions run beside each other.
          const [begin, end] = [size.radius + 6, length - size.radius - 6];
          const [x1, y1] = point(turned > 0 ? begin : end, 7 * turned);
          const [x2, y2] = point(turned > 0 ? end : begin, 7 * turned);
          const kind = kindOf(seen);
          edges.push(
            <g key={`${a} ${b}`} class={`edge ${kind}${kind === "good" ? shade : ""}`}>
              <title>{sight(a, b, seen, flow)}</title>
              <line x1={x1} y1={y1} x2={x2} y2={y2} stroke-width={thick(flow)} marker-end={`url(#tip-${kind})`} />
            </g>,
          );
        }
      }
      const label = (key: string, at: number, text: string) => {
        const [x, y] = point(length * at, 0);
        labels.push(<text key={`${one} ${other} ${key}`} class="flow" x={x} y={y + 4}>{text}</text>);
      };
      if (all.length <= FEW) {
        for (const [flow, at] of [[flows[0], 0.32], [flows[1], 0.68]] as const) {
          if (flow < 1) continue;
          // Which way: as the nodes lie.
          const right = (at < 0.5 ? to.x - from.x : from.x - to.x) > 0;
          label(String(at), at, right ? `${bytes(flow)}/s →` : `← ${bytes(flow)}/s`);
        }
      } else if (near && flows[0] + flows[1] >= 1) {
        // Both ways together; not where nothing can be read between others. The node's table has them all.
        const text = `${bytes(flows[0] + flows[1])}/s`;
        for (const stand of STANDS) {
          const at = looked === one ? stand : 1 - stand;
          const [x, y] = point(length * at, 0);
          const box = boxOf(text, x, y + 4, 12);
          if (full.some((other) => meet(box, other))) continue;
          full.push(box);
          label("", at, text);
          break;
        }
      }
    }
  const heights = [...where.values()].map((place) => place.y);
  const room = all.length <= SOME ? 76 : 46;
  const [top, bottom] = [Math.min(...heights) - room, Math.max(...heights) + room];
  return (
    <svg class={`map${all.length > SOME ? " many" : ""}`} viewBox={`0 ${top} ${size.width} ${bottom - top}`} role="group" aria-label="Cluster map">
      <defs>
        {["good", "warn", "bad"].map((kind) => (
          <marker key={kind} id={`tip-${kind}`} viewBox="0 0 8 8" refX="6" refY="4" markerWidth="7" markerHeight="7" markerUnits="userSpaceOnUse" orient="auto">
            <path d="M0 0 8 4 0 8Z" class={`tip ${kind}`} />
          </marker>
        ))}
      </defs>
      {edges}
      {all.map((name) => {
        const { x, y } = where.get(name)!;
        const { side, at, below } = titles.get(name)!;
        const pulse = pulses.get(name);
        const rate = latest(name);
        const kind = !pulse ? "bad" : pulse.state === "running" ? "good" : "warn";
        return (
          <g
            key={name}
            class={`node ${kind}${props.picked === name ? " picked" : ""}`}
            transform={`translate(${x.toFixed(1)} ${y.toFixed(1)})`}
            role="button"
            tabIndex={0}
            aria-pressed={props.picked === name}
            aria-label={`${name}, ${pulse ? pulse.state : "does not answer"}`}
            onClick={() => props.onPick(name)}
            onPointerEnter={() => (over.value = name)}
            onPointerLeave={() => (over.value = "")}
            onFocus={() => (over.value = name)}
            onBlur={() => (over.value = "")}
            onKeyDown={(event) => {
              if (event.key !== "Enter" && event.key !== " ") return;
              event.preventDefault();
              props.onPick(name);
            }}
          >
            <title>
              {`${name}${pulse ? `: ${count(pulse.connections)} clients` : " does not answer"}${rate ? `, ${count(rate.received)} messages in and ${count(rate.sent)} out a second` : ""}`}
            </title>
            <circle r={size.radius} />
            <text class="big" y={few ? -2 : 5}>{pulse ? count(pulse.connections) : "?"}</text>
            {few && <text y="12">{!pulse ? "silent" : pulse.connections === 1 ? "client" : "clients"}</text>}
            <text class={`name${side > 0 ? " right" : side < 0 ? " left" : ""}`} {...at}>
              {written(name)}
            </text>
            {rated(name) && <text class="rate" y={below}>{rated(name)}</text>}
          </g>
        );
      })}
      {/* Above all, so that nothing covers what is asked for; the pointer goes through. */}
      <g class="flows">{labels}</g>
    </svg>
  );
}
