import { get, order } from "./api";
import { sample } from "./live";
import { Quarantine } from "./quarantine";
import { Badge, Card, Missing, Oops, Table, say, tell, usePoll } from "./ui";
import { many, moment, short, span } from "./words";

interface Status {
  name: string;
  autoheal: number | null;
  autoclean: number | null;
  phase: string;
  leader: string;
  open: { peer: string; context: string; down_at: number; met_at: number }[];
  down: Record<string, number>;
  heals: number;
  quarantined: number;
}
interface Episode {
  plan: string;
  coordinator: string;
  survivors: string[];
  reloaded: string[];
  split_at: number;
  healed_at: number;
  rows: { restored: number; merged: number; quarantined: number; left: number };
  text: string;
}
interface Plan {
  split: boolean;
  leader: string;
  coordinator: string;
  survivors: string[];
  victims: string[];
}

export function Healing() {
  const status = usePoll(() => get<Status>("/autoheal"), 2);
  const history = usePoll(() => get<Episode[]>("/autoheal/history"), 3);
  const plan = usePoll(() => get<Plan>("/autoheal/plan").catch(() => null), 5);
  const alarms = new Map<string, { name: string; active: boolean; since: number; until: number; text: string; nodes: string[] }>();
  for (const pulse of sample.value?.nodes ?? [])
    for (const alarm of pulse.alarms) {
      const key = `${alarm.name} ${alarm.plan || alarm.text}`;
      const row = alarms.get(key) ?? { ...alarm, nodes: [] };
      row.nodes.push(short(pulse.node));
      alarms.set(key, row);
    }
  const rows = [...alarms.values()].sort((a, b) => Number(b.active) - Number(a.active) || b.since - a.since);
  const set = async (autoheal: string) => {
    try {
      await order("POST", "/autoheal", { autoheal });
      tell(`autoheal is ${autoheal}`);
    } catch (error) {
      say(error);
    }
  };
  const now = status.data;
  return (
    <>
      <Card title="Alarms" aside={`${rows.filter((row) => row.active).length} active`}>
        <Missing missing={sample.value?.missing} />
        <Table
          label="Alarms"
          head={["Alarm", "State", "Since", "Lasted", "Seen by", "What"]}
          empty="No alarms: no node is dead, no disc is full, no split waits to be healed."
          rows={rows.map((row) => [
            row.name,
            <Badge kind={row.active ? "bad" : "dim"}>{row.active ? "active" : "over"}</Badge>,
            moment(row.since),
            row.until ? span(row.until - row.since) : "",
            row.nodes.sort().join(", "),
            row.text,
          ])}
        />
      </Card>
      <Card
        title="Autoheal"
        aside={
          <>
            <button onClick={() => set("on")}>turn on</button> <button onClick={() => set("off")}>turn off</button>
          </>
        }
      >
        <Oops error={status.error} />
        {now && (
          <dl class="facts">
            <div><dt>Setting</dt><dd>{now.autoheal === null ? "off" : `on, after ${span(now.autoheal)}`}</dd></div>
            <div><dt>Autoclean</dt><dd>{now.autoclean === null ? "off" : `after ${span(now.autoclean)}`}</dd></div>
            <div><dt>Phase</dt><dd>{now.phase}</dd></div>
            <div><dt>Leader</dt><dd>{short(now.leader) || "–"}</dd></div>
            <div><dt>Down</dt><dd>{Object.entries(now.down).map(([name, seconds]) => `${short(name)} for ${span(seconds)}`).join(", ") || "nobody"}</dd></div>
            <div><dt>In quarantine</dt><dd>{many(now.quarantined, "row")}</dd></div>
          </dl>
        )}
        {plan.data?.split && (
          <p class="banner">
            Would heal now: {plan.data.survivors.map(short).join(", ")} go on, {plan.data.victims.map(short).join(", ")} load again, by {short(plan.data.coordinator)}.
          </p>
        )}
      </Card>
      <Quarantine />
      <Card title="Timeline" aside={`${history.data?.length ?? 0} healed`}>
        <Oops error={history.error} />
        <Timeline episodes={history.data ?? []} />
      </Card>
    </>
  );
}

function Timeline(props: { episodes: Episode[] }) {
  if (!props.episodes.length) return <p class="empty">Nothing was healed yet.</p>;
  return (
    <ol class="timeline">
      {[...props.episodes].reverse().map((one) => (
        <li key={one.plan}>
          <time>{moment(one.split_at)}</time>
          <div>
            <strong>{one.reloaded.map(short).join(", ") || "nobody"}</strong> apart from <strong>{one.survivors.map(short).join(", ")}</strong>
            <div class="bar" aria-hidden="true" />
            healed after {span(one.healed_at - one.split_at)} by {short(one.coordinator)} · {many(one.rows.restored, "row")} restored, {one.rows.merged} merged, {one.rows.quarantined} quarantined
          </div>
        </li>
      ))}
    </ol>
  );
}
