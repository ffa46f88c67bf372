// Lines over time: the value at the pointer is told, and a gap in what is known is a gap in the line.
import { useSignal } from "@preact/signals";
import { clock } from "./words";

export interface Series {
  name: string;
  color: string;
  /** For each time; null where nothing is known. */
  values: (number | null)[];
  /** One of many: thin. */
  thin?: boolean;
}

const [WIDTH, HEIGHT] = [600, 120];

/** The next number above that people count with. */
function ceiling(top: number): number {
  if (top <= 0) return 1;
  const unit = 10 ** Math.floor(Math.log10(top));
  return [1, 1.5, 2, 3, 4, 5, 8, 10].find((factor) => factor * unit >= top)! * unit;
}

/** ``at`` are times in seconds; ``from`` and ``to`` what the width stands for; a gap is longer than ``gap``. */
export function Chart(props: {
  title: string;
  label: string;
  at: number[];
  from: number;
  to: number;
  gap: number;
  series: Series[];
  text: (value: number) => string;
  /** What is told of a moment; unless given, each series. */
  tell?: (index: number) => string;
  least?: number;
}) {
  const here = useSignal<number | null>(null);
  const { at, from, to, series } = props;
  const top = ceiling(Math.max(props.least ?? 0, ...series.flatMap((one) => one.values.map((value) => value ?? 0))));
  const x = (time: number) => ((time - from) / (to - from)) * WIDTH;
  const y = (value: number) => HEIGHT - (value / top) * HEIGHT;
  const path = (values: (number | null)[]) => {
    let text = "";
    let last = -Infinity;
    values.forEach((value, index) => {
      const time = at[index]!;
      if (value === null || time < from) return;
      text += `${time - last > props.gap ? "M" : "L"}${x(time).toFixed(1)} ${y(value).toFixed(1)}`;
      last = time;
    });
    return text;
  };
  const index = here.value === null ? at.length - 1 : here.value;
  const told = (number: number) =>
    props.tell?.(number) ??
    series.map((one) => `${one.name ? `${one.name} ` : ""}${one.values[number] === null ? "–" : props.text(one.values[number]!)}`).join(" · ");
  const move = (event: PointerEvent) => {
    const box = (event.currentTarget as Element).getBoundingClientRect();
    const time = from + ((event.clientX - box.left) / box.width) * (to - from);
    let best = -1;
    at.forEach((one, number) => {
      if (best < 0 || Math.abs(one - time) < Math.abs(at[best]! - time)) best = number;
    });
    here.value = best < 0 ? null : best;
  };
  const minutes = Math.round((to - from) / 60);
  return (
    <figure class="chart">
      <figcaption>
        <span>{props.title}</span>
        <strong>{at.length ? told(index) : "–"}</strong>
        {here.value !== null && <span>{clock(at[here.value]!)}</span>}
        <span class="top">up to {props.text(top)}</span>
      </figcaption>
        <svg
          viewBox={`0 0 ${WIDTH} ${HEIGHT}`}
          preserveAspectRatio="none"
          role="img"
          aria-label={`${props.label}${at.length ? `; now ${told(at.length - 1)}` : ""}`}
          onPointerMove={move}
          onPointerLeave={() => (here.value = null)}
        >
          {[0, 0.5, 1].map((part) => <path key={part} class="rule" d={`M0 ${HEIGHT * part}H${WIDTH}`} />)}
          {[0.25, 0.5, 0.75].map((part) => <path key={part} class="rule" d={`M${WIDTH * part} 0V${HEIGHT}`} />)}
          {series.map((one) => <path key={one.name} class={one.thin ? "thin" : ""} d={path(one.values)} stroke={one.color} />)}
          {here.value !== null && <path class="here" d={`M${x(at[here.value]!).toFixed(1)} 0V${HEIGHT}`} />}
        </svg>
      <div class="times" aria-hidden="true">
        <span>{minutes} min ago</span>
        <span>{Math.round(minutes / 2)} min</span>
        <span>now</span>
      </div>
    </figure>
  );
}
