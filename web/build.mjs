// node build.mjs OUT: the page as one HTML file, script and style inside, with a place for the data.
import { readFile, rename, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import esbuild from "esbuild";

const here = dirname(fileURLToPath(import.meta.url));
const out = process.argv[2];
const bundle = (entry) =>
  esbuild.build({
    entryPoints: [join(here, "src", entry)],
    bundle: true,
    minify: true,
    write: false,
    target: "es2020",
    format: "iife",
    charset: "utf8",
    legalComments: "inline",
    logLevel: "error",
  });
const [script, style] = (await Promise.all([bundle("main.ts"), bundle("style.css")])).map((result) => result.outputFiles[0].text);

// Neither may end the element it stands in. Functions, because "$&" in a replacement would mean something.
const page = (await readFile(join(here, "src", "page.html"), "utf8"))
  .replace("/*style*/", () => style.replaceAll("</", "<\\/"))
  .replace("/*script*/", () => script.replaceAll("</script", "<\\/script").replaceAll("<!--", "<\\!--"));
await writeFile(`${out}.part`, page);
await rename(`${out}.part`, out);
