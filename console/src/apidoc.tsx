import { useSignal } from "@preact/signals";
import { Badge, Card, Oops, Table, usePoll } from "./ui";

interface Operation {
  summary?: string;
  description?: string;
  tags?: string[];
  parameters?: { name: string; in: string; required?: boolean; description?: string; schema?: object }[];
  requestBody?: { content: Record<string, { schema: object }> };
}
interface Document {
  info: { title: string; version: string };
  paths: Record<string, Record<string, Operation>>;
  components: { schemas: Record<string, object> };
}

function named(schema: object | undefined): string {
  const text = schema as { $ref?: string; type?: string; anyOf?: object[]; enum?: string[] } | undefined;
  if (!text) return "";
  if (text.$ref) return text.$ref.split("/").at(-1)!;
  if (text.enum) return text.enum.join(" | ");
  if (text.anyOf) return text.anyOf.map(named).filter((name) => name !== "null").join(" | ");
  return text.type ?? "";
}

export function ApiDoc() {
  const wanted = useSignal("");
  const { data, error } = usePoll(async () => (await (await fetch("/openapi.json")).json()) as Document, 3600);
  const rows = Object.entries(data?.paths ?? {}).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => ({ path, method, operation })),
  );
  const shown = rows.filter((row) => `${row.method} ${row.path} ${row.operation.description}`.toLowerCase().includes(wanted.value.toLowerCase()));
  return (
    <>
      <Card title="HTTP API" aside={<a href="/openapi.json">openapi.json</a>}>
        <p class="dim">
          From other machines: <code>curl -H "Authorization: Bearer $GOSSAMER_TOKEN" …</code>. Any path below /api/v1 is answered
          by another node as /api/v1/nodes/NAME/….
        </p>
        <label>Find <input name="find" value={wanted.value} onInput={(event) => (wanted.value = event.currentTarget.value)} /></label>
        <Oops error={error} />
      </Card>
      {shown.map(({ path, method, operation }) => (
        <Card
          key={`${method} ${path}`}
          title={`${method.toUpperCase()} ${path}`}
          aside={operation.tags?.map((tag) => <Badge key={tag} kind="dim">{tag}</Badge>)}
        >
          <p>{operation.description ?? operation.summary}</p>
          {operation.requestBody && (
            <details>
              <summary>body: {Object.values(operation.requestBody.content).map((one) => named(one.schema)).join(", ")}</summary>
              <pre tabIndex={0}>
                {JSON.stringify(data?.components.schemas[named(Object.values(operation.requestBody.content)[0]?.schema)], null, 2)}
              </pre>
            </details>
          )}
          {operation.parameters?.length ? (
            <Table
              label="Parameters"
              head={["Parameter", "In", "Takes", "Meaning"]}
              empty=""
              rows={operation.parameters.map((one) => [
                <code>{one.name}{one.required ? "" : "?"}</code>,
                one.in,
                named(one.schema),
                one.description ?? "",
              ])}
            />
          ) : null}
        </Card>
      ))}
    </>
  );
}
