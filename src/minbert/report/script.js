"use strict";
// What the page does beyond showing: tables sort and filter, figures enlarge, two variants are
// compared. All text from data goes in as text (textContent, append), never as HTML.
(() => {
  const SVG = "http://www.w3.org/2000/svg";

  function make(tag, settings = {}, ...inside) {
    const element = document.createElement(tag);
    Object.assign(element, settings);
    element.append(...inside);
    return element;
  }

  function draw(tag, attributes = {}, ...inside) {
    const element = document.createElementNS(SVG, tag);
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
    element.append(...inside);
    return element;
  }

  // Tables ---------------------------------------------------------------------------------------

  const NUMBER = /^[<>]?\s*([+-]?(?:\d[\d,]*\.?\d*|\.\d+))(?:\s*(?:[^\w\s-]|to\b|of\b|M$).*)?$/;

  /** The number that a cell shows, or null. */
  function number(cell) {
    if (cell?.dataset.value) return Number(cell.dataset.value);
    const found = NUMBER.exec((cell?.textContent ?? "").trim().replaceAll("−", "-"));
    return found ? Number(found[1].replaceAll(",", "")) : null;
  }

  function compare(a, b, numeric) {
    if (!numeric) return a.text.localeCompare(b.text, "en", { numeric: true });
    return a.value - b.value;
  }

  function sortable(table) {
    const body = [...table.tBodies].at(-1);
    const original = [...body.rows];
    const heads = [...table.tHead.rows].at(-1).cells;
    for (const [column, head] of [...heads].entries()) {
      const values = original.map((row) => number(row.cells[column]));
      const numeric = values.filter((value) => value !== null).length * 2 >= values.length;
      const button = make("button", { type: "button", className: "sort" }, ...head.childNodes);
      head.append(button);
      button.addEventListener("click", () => {
        const next = { ascending: "descending", descending: "none" };
        const order = next[head.ariaSort] ?? "ascending";
        for (const other of heads) other.ariaSort = "none";
        head.ariaSort = order;
        const rows = original.map((row) => {
          const cell = row.cells[column];
          return { row, text: (cell?.textContent ?? "").trim(), value: number(cell) };
        });
        const empty = ({ text, value }) => (numeric ? value === null : text === "" || text === "—");
        const there = rows.filter((each) => !empty(each));
        const sign = order === "descending" ? -1 : 1;
        if (order !== "none") there.sort((a, b) => sign * compare(a, b, numeric));
        const sorted = order === "none" ? rows : [...there, ...rows.filter(empty)];
        body.append(...sorted.map((each) => each.row));
      });
    }
  }

  function filterable(table) {
    const rows = [...[...table.tBodies].at(-1).rows];
    if (rows.length < 8) return;
    const heads = [...[...table.tHead.rows].at(-1).cells];
    const name = table.parentElement.getAttribute("aria-label");
    const search = make("input", { type: "search", placeholder: `Search ${rows.length} rows` });
    search.ariaLabel = `Search ${name}`;
    const tools = make("div", { className: "tools" }, search);
    const count = make("output");
    const selects = [];
    for (const [column, head] of heads.entries()) {
      const texts = rows.map((row) => (row.cells[column]?.textContent ?? "").trim());
      const kinds = [...new Set(texts)].filter((text) => text && text !== "—").sort();
      const numbers = rows.some((row) => number(row.cells[column]) !== null);
      if (column === 0 || numbers || kinds.length < 2 || kinds.length > 8) continue;
      const title = head.textContent.trim();
      const select = make("select", {}, make("option", { value: "" }, `${title}: all`));
      for (const kind of kinds) select.append(make("option", { value: kind }, kind));
      select.ariaLabel = `${name}: ${title}`;
      selects.push([column, select]);
      tools.append(select);
    }
    const words = rows.map((row) => row.textContent.toLowerCase());
    function apply() {
      const wanted = search.value.toLowerCase().split(/\s+/).filter(Boolean);
      let shown = 0;
      for (const [at, row] of rows.entries()) {
        const kept = selects.every(([column, select]) => {
          return !select.value || (row.cells[column]?.textContent ?? "").trim() === select.value;
        });
        row.hidden = !(kept && wanted.every((word) => words[at].includes(word)));
        shown += !row.hidden;
      }
      count.value = shown === rows.length ? "" : `${shown} of ${rows.length} rows`;
    }
    tools.addEventListener("input", apply);
    tools.append(count);
    table.parentElement.before(tools);
  }

  function equip(table) {
    filterable(table); // first: it reads the headings
    sortable(table);
  }

  // Figures --------------------------------------------------------------------------------------

  function enlargeable() {
    const image = make("img");
    const title = make("strong");
    const close = make("button", { type: "button" }, "Close");
    const size = make("button", { type: "button" }, "Larger");
    const dialog = make("dialog", { className: "large" });
    dialog.append(make("div", { className: "bar" }, title, size, close), make("div", {}, image));
    document.body.append(dialog);
    const resize = () => {
      const full = dialog.classList.toggle("full");
      size.textContent = full ? "Fit to the window" : "Larger";
    };
    close.addEventListener("click", () => dialog.close());
    size.addEventListener("click", resize);
    image.addEventListener("click", resize);
    for (const link of document.querySelectorAll("a.enlarge")) {
      link.addEventListener("click", (event) => {
        if (event.ctrlKey || event.metaKey || event.shiftKey) return;
        event.preventDefault();
        const shown = link.querySelector("img");
        image.src = shown.src;
        image.alt = shown.alt;
        title.textContent = link.closest("figure").querySelector("strong").textContent;
        dialog.classList.remove("full");
        size.textContent = "Larger";
        dialog.showModal();
      });
    }
  }

  // Two variants ---------------------------------------------------------------------------------

  const data = JSON.parse(document.getElementById("variants").textContent);

  /** A table of texts; a cell is what is shown, or an element. */
  function tableOf(name, heads, lines, className) {
    const cells = (line, tag) => line.map((cell) => make(tag, {}, cell));
    const head = make("thead", {}, make("tr", {}, ...cells(heads, "th")));
    const rows = lines.map((line) => make("tr", {}, ...cells(line, "td")));
    const table = make("table", { className }, head, make("tbody", {}, ...rows));
    const scroll = make("div", { className: "scroll", tabIndex: 0, role: "region" }, table);
    scroll.ariaLabel = name;
    return scroll;
  }

  const places = (value) => (value == null ? "—" : value.toFixed(3).replace("-", "−"));

  const signed = (value) => (value > 0 ? "+" : "") + places(value);

  /** The floors of two runs: one, or two if they are scored on different examples. */
  const floors = (runs) => [...new Set(runs.map((run) => run?.floor).filter((at) => at != null))];

  function scores(tasks, sides) {
    const lines = tasks.map(([task, ...runs]) => [
      task.title,
      task.metric,
      ...runs.map((run) => (run ? run.said + (run.learned ? "" : " (not above the floor)") : "—")),
      runs.every(Boolean) ? signed(runs[1].score - runs[0].score) : "—",
      floors(runs).map(places).join(", "),
    ]);
    const heads = ["Task", "Score", ...sides, "Second − first", "Floor"];
    return tableOf("Scores of both", heads, lines, "left");
  }

  /** Dev scores by epoch: the first with circles, the second dashed with squares. */
  function curves(task, runs, sides) {
    const points = runs.flatMap((run) => run?.curve ?? []);
    if (!points.length) return "";
    const [wide, high, left, right, top, bottom] = [300, 170, 46, 10, 24, 26];
    const values = points.map((point) => point[1]).concat(floors(runs));
    const [low, most] = [Math.min(...values), Math.max(...values)];
    const room = Math.max(most - low, 0.02);
    const epochs = points.map((point) => point[0]);
    const [first, last] = [Math.min(...epochs), Math.max(...epochs)];
    const x = (epoch) => left + ((epoch - first) / (last - first || 1)) * (wide - left - right);
    const y = (value) => high - bottom - ((value - low) / room) * (high - top - bottom);
    const text = (at, said, settings = {}) => draw("text", { x: at[0], y: at[1], ...settings }, said);
    const svg = draw("svg", { viewBox: `0 0 ${wide} ${high}`, role: "img" });
    svg.setAttribute("aria-label", `${task.title} on dev after each epoch, ${sides.join(" and ")}`);
    svg.append(text([8, 12], `${task.title}, ${task.metric} after each epoch`, { class: "head" }));
    for (const value of [low, low + room]) {
      svg.append(draw("line", { class: "grid", x1: left, x2: wide - right, y1: y(value), y2: y(value) }));
      const at = { class: "faint", "text-anchor": "end" };
      svg.append(text([left - 8, y(value) + 4], value.toFixed(2).replace("-", "−"), at));
    }
    for (const epoch of new Set([first, last])) {
      svg.append(text([x(epoch), high - 10], epoch, { class: "faint", "text-anchor": "middle" }));
    }
    for (const at of floors(runs).map(y)) {
      svg.append(draw("line", { class: "floor", x1: left, x2: wide - right, y1: at, y2: at }));
    }
    for (const [at, run] of runs.entries()) {
      const placed = (run?.curve ?? []).map(([epoch, value]) => [x(epoch), y(value)]);
      const kind = ["one", "two"][at];
      svg.append(draw("polyline", { class: kind, points: placed.map(String).join(" ") }));
      for (const [px, py] of placed) {
        const mark = at
          ? draw("rect", { class: kind, x: px - 3, y: py - 3, width: 6, height: 6 })
          : draw("circle", { class: kind, cx: px, cy: py, r: 3 });
        svg.append(mark);
      }
    }
    return svg;
  }

  /** Counts of labels (rows) and predictions (columns), shaded by their share of the row. */
  function confusion(task, run, side) {
    const heads = ["label \\ predicted", ...task.classes];
    const lines = run.confusion.map((row, at) => [task.classes[at], ...row.map(String)]);
    const shown = tableOf(`${task.title}, ${side}`, heads, lines, "confusion");
    for (const [at, row] of run.confusion.entries()) {
      const sum = row.reduce((total, count) => total + count, 0) || 1;
      for (const [column, count] of row.entries()) {
        const cell = shown.querySelector("tbody").rows[at].cells[column + 1];
        cell.style.setProperty("--share", `${Math.round((60 * count) / sum)}%`);
      }
    }
    return make("div", {}, make("p", { className: "soft" }, `${task.title}, ${side}`), shown);
  }

  function differing(tasks, sides) {
    const lines = [];
    const counts = [];
    for (const [task, one, two] of tasks) {
      if (!one || !two) continue;
      let differ = 0;
      for (const [at, example] of task.examples.entries()) {
        const [a, b] = [one.predicted[at], two.predicted[at]];
        if (Math.abs(a - b) < task.differ) continue;
        differ += 1;
        const texts = example.texts.map((text) => make("p", { dir: "auto" }, text));
        const away = Math.abs(a - example.label) - Math.abs(b - example.label);
        const better = away < 0 ? sides[0] : away > 0 ? sides[1] : "neither";
        const values = [example.label, a, b].map((value) => task.names[value] ?? `${value}`);
        lines.push([make("div", {}, ...texts), task.title, ...values, better]);
      }
      counts.push(`${task.title} ${differ} of ${task.examples.length}`);
    }
    const said =
      `Examples on which they differ: ${counts.join(", ") || "none"}. Only the dev examples on which ` +
      "all variants here differ most were compared; values differ if they are at least a fifth of " +
      "the labels' range apart.";
    const heads = ["Text", "Task", "Label", ...sides, "Nearer"];
    const table = tableOf("Examples that differ", heads, lines, "data left examples");
    return [make("p", {}, said), ...(lines.length ? [table] : [])];
  }

  function comparison() {
    const choices = data.papers.flatMap((paper) =>
      paper.variants.map((variant) => ({ paper: paper.name, ...variant })),
    );
    if (choices.length < 2) return;
    for (const element of document.querySelectorAll(".scripted")) element.hidden = false;
    const selects = ["First", "Second"].map((name, at) => {
      const select = make("select");
      for (const paper of data.papers) {
        const group = make("optgroup", { label: paper.name });
        for (const variant of paper.variants) {
          const value = String(choices.findIndex((c) => c.runs === variant.runs));
          group.append(make("option", { value }, variant.label));
        }
        select.append(group);
      }
      select.value = String(at);
      select.ariaLabel = `${name} variant`;
      return select;
    });
    const shown = make("div");
    function show() {
      const chosen = selects.map((select) => choices[Number(select.value)]);
      const same = chosen[0].label === chosen[1].label;
      const sides = chosen.map((c, at) => (same ? `${c.label} (${c.paper}, ${at + 1})` : c.label));
      const tasks = Object.entries(data.tasks)
        .map(([name, task]) => [task, ...chosen.map((c) => data.runs[c.runs[name]])])
        .filter(([, one, two]) => one || two);
      const key = make("p", { className: "legend" });
      key.append(...sides.map((side, at) => make("span", { className: ["one", "two"][at] }, side)));
      key.append(make("span", { className: "floor" }, "floor"));
      const drawn = tasks.map(([task, ...runs]) => curves(task, runs, sides));
      const counts = tasks.map(([task, ...runs]) => {
        const tables = runs.map((run, at) => (run ? confusion(task, run, sides[at]) : ""));
        return make("div", { className: "pair" }, ...tables);
      });
      shown.replaceChildren(
        scores(tasks, sides),
        key,
        make("div", { className: "panels" }, ...drawn),
        ...counts,
        ...differing(tasks, sides),
      );
      shown.querySelectorAll("table.data").forEach(equip);
    }
    const chooser = make("div", { className: "tools" }, ...selects);
    chooser.addEventListener("input", show);
    document.getElementById("compared").append(chooser, shown);
    show();
  }

  document.querySelectorAll("table.data").forEach(equip);
  enlargeable();
  comparison();
})();
