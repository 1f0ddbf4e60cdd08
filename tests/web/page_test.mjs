// The page in headless Chromium. node --test page_test.mjs, with RETRACE_PAGES, the folder that make_pages wrote to, and
// RETRACE_CHROMIUM, the browser.
import assert from "node:assert/strict";
import { createRequire } from "node:module";
import { after, before, test } from "node:test";
import { pathToFileURL } from "node:url";

const { chromium } = createRequire(new URL("../../web/package.json", import.meta.url))("playwright-core");
const { RETRACE_PAGES: folder, RETRACE_CHROMIUM: executablePath } = process.env;
const url = (name) => pathToFileURL(`${folder}/${name}.html`).href;

let browser;
before(async () => {
  browser = await chromium.launch({ executablePath, args: ["--no-sandbox"] });
});
after(() => browser?.close());

// Opens a page, lets `use` work with it, and fails if it complained or asked for anything but itself.
async function withPage(name, use, options = {}) {
  const page = await browser.newPage({ viewport: { width: 1280, height: 900 }, ...options });
  const complaints = [];
  const requests = [];
  page.on("console", (message) => complaints.push(`${message.type()}: ${message.text()}`));
  page.on("pageerror", (error) => complaints.push(error.message));
  page.on("request", (request) => requests.push(request.url()));
  await page.route("**/*", (route) => (route.request().url() === url(name) ? route.continue() : route.abort()));
  try {
    await page.goto(url(name));
    await use(page);
    assert.deepEqual(complaints, []);
    assert.deepEqual(
      requests.filter((request) => request !== url(name) && !request.startsWith("data:")),
      [],
    );
  } finally {
    await page.close();
  }
}

const text = (page, selector) => page.locator(selector).innerText();
const figure = (page, list, term) => page.locator(`${list} > div`, { has: page.locator("dt", { hasText: new RegExp(`^${term}$`) }) }).locator("dd").innerText();
const choose = (page, name) => page.locator("#switch").getByRole("radio", { name, exact: true }).click();

// Pixels of a chart that are in the colour of an owner.
const pixels = (page, owner) =>
  page.evaluate((name) => {
    const drawn = document.querySelector("#memory canvas");
    const copy = new OffscreenCanvas(drawn.width, drawn.height).getContext("2d", { willReadFrequently: true });
    copy.drawImage(drawn, 0, 0);
    const { data } = copy.getImageData(0, 0, drawn.width, drawn.height);
    const wanted = getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
    const [r, g, b] = [1, 3, 5].map((i) => parseInt(wanted.slice(i, i + 2), 16));
    let found = 0;
    for (let i = 0; i < data.length; i += 4) found += Number(data[i] === r && data[i + 1] === g && data[i + 2] === b);
    return found;
  }, owner);

test("it says the answer first and asks for nothing", () =>
  withPage("small", async (page) => {
    assert.match(await text(page, "h1"), /^One step peaks at [\d.]+.MiB; \d+.% of that is activations kept for backward\.$/);
    assert.match(await page.title(), /^small\.tape: peak/);
    assert.match(await text(page, "#offer"), /takes [\d.]+.% longer/);
  }));

test("a request would be noticed here", () =>
  assert.rejects(withPage("small", (page) => page.evaluate(() => fetch("http://127.0.0.1:9/").catch(() => 0)))));

test("the switch of policies changes peak, chart and code", () =>
  withPage("small", async (page) => {
    const plain = await figure(page, "#figures", "peak");
    assert.equal(await pixels(page, "rebuilt"), 0);
    assert.ok((await pixels(page, "kept")) > 1000);
    await choose(page, "every:1");
    assert.notEqual(await figure(page, "#figures", "peak"), plain);
    assert.ok((await pixels(page, "rebuilt")) > 100);
    assert.equal(await text(page, "#code"), "retrace::Session session(retrace::every(1));");
    await choose(page, "full");
    assert.equal(await figure(page, "#figures", "peak"), plain);
  }));

test("the slider moves the numbers, by mouse and by arrow keys", () =>
  withPage("small", async (page) => {
    const told = async () => Promise.all(["predicted peak", "extra time", "kept", "rebuilt"].map((term) => figure(page, "#budget-figures", term)));
    const slider = page.locator("#budget");
    await slider.press("Home");
    const least = await told();
    await slider.press("ArrowRight");
    const next = await told();
    least.forEach((value, i) => assert.notEqual(value, next[i]));
    assert.equal(await page.locator("#switch [aria-checked=true]").innerText(), "budget");
    assert.match(await text(page, "#code"), /retrace::budget\("\d+MiB"\)/);
    await slider.press("End");
    assert.match((await told())[1], /^0.s/);
    const box = await slider.boundingBox();
    await page.mouse.click(box.x + 3, box.y + box.height / 2);
    assert.deepEqual(await told(), least);
  }));

test("owners and layers at the peak add up to it", () =>
  withPage("small", async (page) => {
    const amounts = (selector) =>
      page.locator(`${selector} .amount`).evaluateAll((all) => all.map((e) => parseFloat(e.textContent) * { B: 1, KiB: 2 ** 10, MiB: 2 ** 20, GiB: 2 ** 30 }[e.textContent.match(/[KMG]?i?B/)[0]]));
    const sum = (list) => list.reduce((a, b) => a + b, 0);
    const peak = parseFloat(await figure(page, "#figures", "peak")) * 2 ** 20;
    assert.ok(Math.abs(sum(await amounts("#peak-owners")) - peak) < 0.01 * peak);
    const blocks = await amounts("#peak-layers");
    await page.getByRole("radio", { name: "layer" }).click();
    assert.ok((await page.locator("#peak-layers li").count()) > blocks.length || blocks.length > 10);
    assert.match(await text(page, "#peak-layers"), /blocks\.\d\.attention/);
    assert.ok(sum(blocks) < peak);
  }));

test("hovering tells operator, layer, shape and bytes; so do arrow keys", () =>
  withPage("small", async (page) => {
    const chart = await page.locator("#memory .u-over").boundingBox();
    await page.mouse.move(chart.x + chart.width * 0.3, chart.y + chart.height / 2);
    const tip = await text(page, "#memory .tip");
    assert.match(tip, /blocks\.\d+\.(attention|mlp)/);
    assert.match(tip, /f32\[4, 256, \d+\]/);
    assert.match(tip, /MiB live at/);
    await page.locator("#memory").focus();
    await page.keyboard.press("p");
    assert.ok((await text(page, "#memory .tip")).includes(await figure(page, "#figures", "peak")));
    await page.keyboard.press("ArrowLeft");
    assert.ok((await page.locator("#reading").textContent()).length > 10);
  }));

test("the filter filters and headings sort", () =>
  withPage("small", async (page) => {
    const rows = () => page.locator(".space .row").count();
    const all = await text(page, "#tape-count");
    const names = () => page.locator(".space .row .name").allInnerTexts();
    const [first] = await names();
    await page.locator("#filter").fill(first);
    assert.notEqual(await text(page, "#tape-count"), all);
    assert.ok((await names()).every((name) => name.includes(first)));
    await page.locator("#filter").fill("no such operator");
    assert.equal(await rows(), 0);
    assert.match(await text(page, "#tape-count"), /^0 operators/);
    await page.locator("#filter").fill("");
    await page.getByRole("button", { name: "saved", exact: true }).click();
    const saved = (await page.locator(".space .row .saved").allInnerTexts()).map(parseFloat);
    assert.ok(saved[0] > 0 && saved.slice(0, 20).every((s, i) => i === 0 || s <= saved[i - 1]));
    await choose(page, "every:1");
    await page.locator("#fate").selectOption("rebuilt");
    assert.ok((await page.locator(".space .row .fate").allInnerTexts()).every((fate) => fate === "rebuilt"));
    assert.ok((await rows()) > 0);
  }));

test("the frontier's points tell what they are and can be chosen", () =>
  withPage("small", async (page) => {
    await page.locator("#frontier").scrollIntoViewIfNeeded();
    const chart = await page.locator("#frontier .u-over").boundingBox();
    const tip = page.locator("#frontier .tip");
    let name = "";
    for (let i = 0; i < 400 && !name.startsWith("every"); ++i) {
      await page.mouse.move(chart.x + (chart.width * (i % 20)) / 20, chart.y + (chart.height * Math.floor(i / 20)) / 20);
      name = (await tip.isVisible()) ? (await tip.locator("strong").innerText()) : "";
    }
    assert.match(name, /^every:\d+$/);
    await page.mouse.down();
    await page.mouse.up();
    assert.equal(await page.locator("#switch [aria-checked=true]").innerText(), name);
  }));

test("names are shown as text, whatever they are", () =>
  withPage("hostile", async (page) => {
    await choose(page, "every:1");
    const chart = await page.locator("#memory .u-over").boundingBox();
    await page.mouse.move(chart.x + chart.width * 0.3, chart.y + chart.height / 2);
    assert.equal(await page.evaluate(() => window.harmed), undefined);
    assert.equal(await page.locator("img").count(), 0);
    for (const place of ["#subject", ".space .row .name >> nth=0", "#memory .tip", "#peak-layers", "#peak-where"])
      assert.ok((await text(page, place)).includes("</script><script>"), place);
    assert.ok((await page.title()).includes("&amp;"));
  }));

test("light and dark, as the system says and by the switch", () =>
  withPage(
    "small",
    async (page) => {
      const background = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
      const dark = await background();
      const button = page.locator("#theme");
      await button.click();
      const light = await background();
      assert.notEqual(light, dark);
      assert.ok((await pixels(page, "kept")) > 1000, "the chart has the colours of the theme");
      await button.click();
      assert.equal(await background(), dark);
    },
    { colorScheme: "dark" },
  ));

test("a phone's width needs no scrolling sideways", () =>
  withPage(
    "small",
    async (page) => {
      assert.equal(await page.evaluate(() => document.documentElement.scrollWidth), 390);
      assert.ok(await page.locator("#sort").isVisible());
      await page.locator("#sort").selectOption({ label: "sort by saved" });
      assert.ok(parseFloat(await text(page, ".space .row .saved >> nth=0")) > 0);
    },
    { viewport: { width: 390, height: 844 } },
  ));

test("everything can be reached with the tab key", () =>
  withPage("small", async (page) => {
    const reached = new Set();
    for (let i = 0; i < 40; ++i) {
      await page.keyboard.press("Tab");
      reached.add(await page.evaluate(() => document.activeElement.id || document.activeElement.parentElement.id));
    }
    for (const id of ["theme", "switch", "memory", "grouping", "budget", "filter", "fate", "table"]) assert.ok(reached.has(id), id);
  }));

test("a tape of 20,000 operators stays responsive", () =>
  withPage("large", async (page) => {
    assert.match(await text(page, "#tape-count"), /^2\d,\d{3} operators/);
    assert.ok((await page.locator(".space .row").count()) < 100, "only rows that can be seen are there");
    const begin = Date.now();
    await choose(page, "every:1");
    await page.locator("#budget").press("ArrowRight");
    await page.locator("#filter").fill("blocks.33.mlp");
    assert.match(await text(page, "#tape-count"), /^15 operators/);
    await page.locator("#filter").fill("");
    await page.getByRole("button", { name: "layer", exact: true }).click();
    await page.locator("#table").evaluate((table) => (table.scrollTop = table.scrollHeight));
    await page.locator(".space .row").first().waitFor();
    assert.ok(Date.now() - begin < 10_000, "within ten seconds; a second is usual");
  }));

test("an empty tape is no error", () =>
  withPage("empty", async (page) => {
    assert.match(await text(page, "#tape-count"), /^0 operators/);
    assert.doesNotMatch(await page.locator("main").evaluate((main) => main.outerHTML), /NaN|Infinity|undefined/);
  }));
