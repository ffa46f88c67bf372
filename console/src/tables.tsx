import { useSignal } from "@preact/signals";
import { at, get } from "./api";
import { names, sample } from "./live";
import { Badge, Card, NodePicker, Oops, Table, usePoll } from "./ui";
import { count, short } from "./words";

interface Row {
  name: string;
  type: string;
  storage: string;
  replication: string;
  rows: number;
  loaded: boolean;
  owners: Record<string, number>;
}

export function Tables() {
  const node = useSignal("");
  const name = node.value || sample.value?.asked || "";
  const { data, error } = usePoll(() => (name ? get<Row[]>(at(name, "/tables")) : Promise.resolve([])), 3, [name]);
  return (
    <Card title="Tables" aside={<NodePicker names={names.value} value={name} onPick={(picked) => (node.value = picked)} />}>
      <Oops error={error} />
      <Table
        label="Tables"
        head={["Table", "Rows", "Loaded", "Type", "Storage", "Replication", "Rows by owner"]}
        empty="no tables"
        rows={(data ?? []).map((row) => [
          row.name,
          count(row.rows),
          <Badge kind={row.loaded ? "good" : "warn"}>{row.loaded ? "yes" : "no"}</Badge>,
          row.type,
          row.storage,
          row.replication,
          Object.entries(row.owners).map(([owner, rows]) => `${short(owner)} ${count(rows)}`).join(", "),
        ])}
      />
    </Card>
  );
}
