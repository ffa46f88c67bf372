// Builds the console into gossamer/api/console, with the digest of what it was built from, so that a test can
// tell a stale build without Node.
import { build } from "esbuild";
import { createHash } from "node:crypto";
import { cp, mkdir, readFile, readdir, rm, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const root = dirname(fileURLToPath(import.meta.url));
const out = join(root, "..", "gossamer", "api", "console");

async function digest() {
  const hash = createHash("sha256");
  const names = ["package.json", "build.mjs", "tsconfig.json"];
  for (const name of (await readdir(join(root, "src"))).sort()) names.push(`src/${name}`);
  for (const name of names) hash.update(`${name}\0`).update(await readFile(join(root, name))).update("\0");
  return hash.digest("hex");
}

await rm(out, { recursive: true, force: true });
await mkdir(out, { recursive: true });
await build({
  entryPoints: { app: join(root, "src/main.tsx"), style: join(root, "src/style.css") },
  outdir: out,
  bundle: true,
  splitting: true,
  format: "esm",
  target: "es2022",
  minify: true,
  legalComments: "none",
  chunkNames: "[name]-[hash]",
  jsx: "automatic",
  jsxImportSource: "preact",
  define: { "process.env.NODE_ENV": '"production"', global: "globalThis" },
});
for (const name of ["index.html", "icon.svg"]) await cp(join(root, "src", name), join(out, name));
await writeFile(join(out, "built-from"), `${await digest()}\n`);
