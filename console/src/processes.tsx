import { useSignal } from "@preact/signals";
import { at, get } from "./api";
import { names, sample } from "./live";
import { Badge, Card, NodePicker, Oops, Opened, usePoll } from "./ui";
import { Trace } from "./trace";
import { bytes, count } from "./words";

interface Process {
  pid: string;
  name: string | null;
  label: string;
  type: string;
  status: string;
  restarts: number;
  mailbox: number;
  reductions: number;
  memory: number;
  children: Process[];
  more: number;
  note: string;
  folded: { label: string; number: number; memory: number; restarts: number }[];
}

export function Processes() {
  const node = useSignal(sample.value?.asked ?? "");
  const traced = useSignal("");
  const name = node.value || sample.value?.asked || "";
  const { data, error } = usePoll(() => (name ? get<Process[]>(at(name, "/processes"), { fold: 10 }) : Promise.resolve([])), 3, [name]);
  return (
    <>
      {traced.value && (
        <Opened key={traced.value}>
          <Trace node={name} pid={traced.value} onClose={() => (traced.value = "")} />
        </Opened>
      )}
      <Card title="Supervision tree" aside={<NodePicker names={names.value} value={name} onPick={(picked) => { node.value = picked; traced.value = ""; }} />}>
        <Oops error={error} />
        <ul class="tree" role="tree" aria-label={`Processes of ${name}`}>
          {(data ?? []).map((root) => <Branch key={root.pid} process={root} depth={0} onTrace={(pid) => (traced.value = pid)} />)}
        </ul>
      </Card>
    </>
  );
}

function Branch(props: { process: Process; depth: number; onTrace: (pid: string) => void }) {
  const { process, depth } = props;
  const open = useSignal(depth < 2);
  const below = process.children.length + process.folded.length > 0;
  return (
    <li role="treeitem" aria-expanded={below ? open.value : undefined}>
      <div class="branch">
        {below ? (
          <button class="fold" aria-label={open.value ? "fold" : "unfold"} onClick={() => (open.value = !open.value)}>
            {open.value ? "▾" : "▸"}
          </button>
        ) : (
          <span class="fold" />
        )}
        <code>{process.pid}</code>
        <strong>{process.name ?? process.label}</strong>
        {process.name && process.name !== process.label && <span class="dim">{process.label}</span>}
        {process.type === "supervisor" && <Badge kind="dim">supervisor</Badge>}
        {process.restarts > 0 && <Badge kind="warn">{process.restarts} restarts</Badge>}
        {process.mailbox > 0 && <Badge kind={process.mailbox > 100 ? "bad" : "warn"}>{count(process.mailbox)} waiting</Badge>}
        <span class="dim">
          {count(process.reductions)} messages{process.memory ? ` · ${bytes(process.memory)}` : ""} {process.note}
        </span>
        <button class="small" onClick={() => props.onTrace(process.pid)}>trace</button>
      </div>
      {open.value && below && (
        <ul role="group">
          {process.children.map((child) => <Branch key={child.pid} process={child} depth={depth + 1} onTrace={props.onTrace} />)}
          {process.folded.map((kind) => (
            <li key={kind.label} role="treeitem">
              <div class="branch">
                <span class="fold" />
                <span class="dim">and {count(kind.number)} more {kind.label} · {bytes(kind.memory)}</span>
              </div>
            </li>
          ))}
        </ul>
      )}
    </li>
  );
}
