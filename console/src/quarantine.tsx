// Rows that lost when two sides became one: each kept by a node until somebody writes it again.
import { useSignal } from "@preact/signals";
import { get, order } from "./api";
import { ask } from "./ask";
import { refused } from "./rights";
import { Badge, Card, Missing, Oops, Table, say, tell, usePoll } from "./ui";
import { many, moment, short } from "./words";

interface Row {
  node: string;
  id: string;
  table: string;
  key: string;
  value: string;
  deleted: boolean;
  author: string;
  written_at: number;
  lost_to: string;
  lost_to_at: number;
  policy: string;
}

export function Quarantine() {
  const turn = useSignal(0);
  const { data, error } = usePoll(() => get<{ items: Row[]; next: string | null; missing: Record<string, string> }>("/autoheal/quarantine", { limit: 100 }), 4, [], turn.value);
  const may = refused("operator", "Writing a row again");
  const replay = async (row: Row) => {
    const what = row.deleted ? "The key is deleted again." : "The row is written again as the newest version, over what stands there now.";
    if (!(await ask("Write this row again?", <><p><code>{row.table} {row.key}</code></p><p>{what} It leaves the quarantine.</p></>, "write it again"))) return;
    try {
      await order("POST", `/autoheal/quarantine/${row.id}/replay`);
      tell(`${row.table} ${row.key} is written again`);
    } catch (problem) {
      say(problem);
    }
    turn.value++;
  };
  // Survivors keep the same rows, each in its own quarantine.
  const found = new Map<string, Row & { nodes: string[] }>();
  for (const row of data?.items ?? []) {
    const known = found.get(row.id);
    if (known) known.nodes.push(row.node);
    else found.set(row.id, { ...row, nodes: [row.node] });
  }
  const rows = [...found.values()];
  return (
    <Card title="Quarantine" aside={data ? (data.next ? `the first ${rows.length} rows` : many(rows.length, "row")) : ""}>
      <Oops error={error} />
      <Missing missing={data?.missing} />
      <Table
        label="Quarantine"
        head={["Table", "Key", "What lost", "Written by", "Lost to", "Kept at", ""]}
        empty="Empty: no row lost in a heal. Rows that both sides wrote and no merge function decided would stand here."
        rows={rows.map((row) => [
          row.table,
          <code>{row.key}</code>,
          row.deleted ? <Badge kind="dim">a deletion</Badge> : <code>{row.value}</code>,
          <>{short(row.author)} <span class="dim">{moment(row.written_at)}</span></>,
          <>{short(row.lost_to)} <span class="dim">{moment(row.lost_to_at)}, {row.policy}</span></>,
          row.nodes.map(short).join(", "),
          <button class="small" disabled={!!may} title={may} onClick={() => replay(row)}>write again</button>,
        ])}
      />
      {may && rows.length > 0 && <p class="dim">{may}</p>}
    </Card>
  );
}
