// node build.mjs OUT.html [OUT.cpp]: the page as one HTML file, script and style inside, with a place for the data; and the
// same as C++ (tools/retrace/page_template.h).
import { readFile, rename, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import esbuild from "esbuild";

const here = dirname(fileURLToPath(import.meta.url));
const [htmlPath, cppPath] = process.argv.slice(2);
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

const cpp = () => `// Made by web/build.mjs.
#include "page_template.h"

namespace {
constexpr unsigned char kPage[] = {
${[...Buffer.from(page)].join(",").replace(/(.{100}\d*,)/g, "$1\n")}};
}  // namespace

namespace retrace::cli {
std::string_view page_template() { return {reinterpret_cast<const char*>(kPage), sizeof kPage}; }
}  // namespace retrace::cli
`;

// Under its name only when it is whole.
const write = async (path, content) => {
  await writeFile(`${path}.part`, content);
  await rename(`${path}.part`, path);
};
await write(htmlPath, page);
if (cppPath) await write(cppPath, cpp());
