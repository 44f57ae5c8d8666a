"use strict";
// What the page does beyond showing: tables sort and are searched, figures enlarge. All text from data
// goes in as text (textContent, append), never as HTML.
(() => {
  function make(tag, settings = {}, ...inside) {
    const element = document.createElement(tag);
    Object.assign(element, settings);
    element.append(...inside);
    return element;
  }

  // Tables ---------------------------------------------------------------------------------------

  const NUMBER = /^[<>]?\s*([+-]?(?:\d[\d,]*\.?\d*|\.\d+))(?:\s*(?:[^\w\s-]|to\b|of\b|M$).*)?$/;

  /** The number that a cell shows, or null. */
  function number(cell) {
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

  function searchable(table) {
    const rows = [...[...table.tBodies].at(-1).rows];
    if (rows.length < 8) return;
    const name = table.parentElement.getAttribute("aria-label");
    const search = make("input", { type: "search", placeholder: `Search ${rows.length} rows` });
    search.ariaLabel = `Search ${name}`;
    const tools = make("div", { className: "tools" }, search);
    const count = make("output");
    const words = rows.map((row) => row.textContent.toLowerCase());
    function apply() {
      const wanted = search.value.toLowerCase().split(/\s+/).filter(Boolean);
      let shown = 0;
      for (const [at, row] of rows.entries()) {
        row.hidden = !wanted.every((word) => words[at].includes(word));
        shown += !row.hidden;
      }
      count.value = shown === rows.length ? "" : `${shown} of ${rows.length} rows`;
    }
    tools.addEventListener("input", apply);
    tools.append(count);
    table.parentElement.before(tools);
  }

  function equip(table) {
    searchable(table);
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

  document.querySelectorAll("table.data").forEach(equip);
  enlargeable();
})();
