// The HTTP API as the console uses it: requests, streams of lines, and server-sent events, all with the token.
import { signal } from "@preact/signals";

export const token = signal(sessionStorage.getItem("token") ?? "");
/** Set when the node wants a token, or a better one. */
export const locked = signal("");
export const who = signal<{ name: string; role: string; node: string } | null>(null);

export class Problem extends Error {
  constructor(
    readonly status: number,
    message: string,
  ) {
    super(message);
  }
}

export function setToken(text: string) {
  token.value = text.trim();
  if (token.value) sessionStorage.setItem("token", token.value);
  else sessionStorage.removeItem("token");
}

async function send(path: string, options: RequestInit = {}): Promise<Response> {
  const headers = new Headers(options.headers);
  if (token.value) headers.set("authorization", `Bearer ${token.value}`);
  let answer: Response;
  try {
    answer = await fetch(path, { ...options, headers });
  } catch {
    throw new Problem(0, "the node does not answer");
  }
  if (answer.ok) return answer;
  let detail = `${answer.status} ${answer.statusText}`;
  try {
    detail = (await answer.json()).detail ?? detail;
  } catch {
    // Not a problem of ours; its status has to do.
  }
  if (answer.status === 401) locked.value = detail;
  throw new Problem(answer.status, detail);
}

/** Some of many, of all nodes. */
export interface Page<T> {
  items: T[];
  next: string | null;
  missing?: Record<string, string>;
}

type Params = Record<string, string | number | boolean | undefined>;

function query(params: Params): string {
  const given = Object.entries(params).filter(([, value]) => value !== undefined && value !== "");
  return given.length ? `?${new URLSearchParams(given.map(([name, value]) => [name, String(value)]))}` : "";
}

export async function get<T>(path: string, params: Params = {}): Promise<T> {
  return (await send(`/api/v1${path}${query(params)}`)).json();
}

export async function order<T>(method: string, path: string, body?: unknown, params: Params = {}): Promise<T> {
  const headers = { "content-type": "application/json" };
  const options = body === undefined ? { method } : { method, headers, body: JSON.stringify(body) };
  return (await send(`/api/v1${path}${query(params)}`, options)).json();
}

/** Path of the same request at another node; before any name is known, at the one that answers. */
export const at = (node: string, path: string) => (node ? `/nodes/${encodeURIComponent(node)}${path}` : path);

async function* chunks(path: string, signal: AbortSignal): AsyncGenerator<string> {
  const answer = await send(`/api/v1${path}`, { signal });
  const reader = answer.body!.pipeThrough(new TextDecoderStream()).getReader();
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      yield value;
    }
  } finally {
    reader.cancel().catch(() => undefined);
  }
}

/** JSON lines as they come. */
export async function* lines<T>(path: string, params: Params, signal: AbortSignal): AsyncGenerator<T> {
  let rest = "";
  for await (const chunk of chunks(`${path}${query(params)}`, signal)) {
    const parts = (rest + chunk).split("\n");
    rest = parts.pop()!;
    for (const part of parts) if (part.trim()) yield JSON.parse(part) as T;
  }
}

/** The data of server-sent events as they come. EventSource cannot send a token. */
export async function* events<T>(path: string, signal: AbortSignal): AsyncGenerator<T> {
  let rest = "";
  for await (const chunk of chunks(path, signal)) {
    const parts = (rest + chunk).split("\n\n");
    rest = parts.pop()!;
    for (const part of parts) {
      const data = part.split("\n").filter((line) => line.startsWith("data: "));
      if (data.length) yield JSON.parse(data.map((line) => line.slice(6)).join("\n")) as T;
    }
  }
}
