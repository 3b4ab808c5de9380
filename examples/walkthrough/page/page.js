// What lessons and runs have in common: elements, tables, tabs, colours, the frame of the page, and the start.
//
// Every text of the data becomes a text node, never markup. Every number that is shown arrives as a text that the
// program wrote; numbers as such only decide how long a bar is or how dark a cell.
"use strict";

// ---- elements

function append(parent, children) {
  for (const child of children.flat(Infinity)) {
    if (child !== null && child !== undefined && child !== false) parent.append(child);
  }
  return parent;
}

/** An element. Attributes that start with "--" are custom properties of its style. */
function h(tag, attributes, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("--"))
      element.style.setProperty(name, value);
    else
      element.setAttribute(name, value === true ? "" : value);
  }
  return append(element, children);
}

function svg(tag, attributes, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes || {})) element.setAttribute(name, value);
  return append(element, children);
}

const onlyForEars = (text) => h("span", {class: "vh"}, text);
const forEyes = (...children) => h("span", {"aria-hidden": "true"}, ...children);

/** "W_fc raw_i" with indices set lower and powers higher. Names such as q_norm stay as they are. */
function typeset(text) {
  const parts = [];
  const mark = /([A-Za-z)])(?:_(fc|\d+|[A-Za-z])(?![A-Za-z0-9_])|\^(T)\b)/g;
  let at = 0;
  for (let found = mark.exec(text); found !== null; found = mark.exec(text)) {
    parts.push(text.slice(at, found.index + 1), found[2] ? h("sub", null, found[2]) : h("sup", null, found[3]));
    at = mark.lastIndex;
  }
  return [...parts, text.slice(at)];
}

/** A line of the text output: formulas and what is said about them stand three blanks apart. */
function formulaLine(line) {
  return h(
    "p", {class: "formula"},
    line.split(/ {3,}/).map((part) => h("span", {class: part.includes("=") ? "maths" : "note"}, typeset(part))));
}

// ---- tables

/** A box of its own for what may be wider than the page: it scrolls, and takes the focus only where it can. */
function scrollBox(label, content) {
  const box = h("div", {class: "scroll", role: "group", "aria-label": label}, content);
  new ResizeObserver(() => {
    const wide = box.scrollWidth > box.clientWidth + 1;
    if (wide)
      box.setAttribute("tabindex", "0");
    else
      box.removeAttribute("tabindex");
  }).observe(box);
  return box;
}

/** "3 on": the position and its word, one above the other where space is short. */
function placeLabel(text) {
  const blank = text.indexOf(" ");
  if (blank < 0) return text;
  return [h("span", {class: "pos"}, text.slice(0, blank)), " ", h("span", {class: "word"}, text.slice(blank + 1))];
}

/** The caption of a table stays in view while the table scrolls. */
const captionOf = (...content) => h("caption", null, h("span", {class: "held-in-view"}, content));

/** A table of texts. head: [texts]; rows: [[texts]], the first of each being the row's name. */
function plainTable(name, caption, head, rows, numeric) {
  return h(
    "table", {class: "plain", "data-table": name}, captionOf(caption),
    h("thead", null, h("tr", null, head.map((text) => h("th", {scope: "col"}, text)))),
    h("tbody", null,
      rows.map(
        (row) =>
          h("tr", null,
            row.map(
              (cell, i) => i === 0 ? h("th", {scope: "row"}, cell) :
                                     h("td", {class: numeric && numeric.includes(i) ? "num" : null}, cell))))));
}

// ---- tabs

let tabGroups = 0;

/** Tabs after the ARIA pattern. entries: [{ button: [children], panel: element, group (optional heading) }]. */
function tabs(label, entries) {
  const group = `tabs-${++tabGroups}`;
  const buttons = entries.map(
    (entry, i) =>
      h("button", {
        type: "button",
        role: "tab",
        id: `${group}-${i}`,
        "aria-controls": `${group}-${i}-panel`,
        "aria-selected": String(i === 0),
        tabindex: i === 0 ? "0" : "-1",
      },
        entry.button));
  const panels = entries.map(
    (entry, i) =>
      h("div", {
        role: "tabpanel",
        id: `${group}-${i}-panel`,
        "aria-labelledby": `${group}-${i}`,
        hidden: i !== 0,
      },
        entry.panel));
  const select = (chosen) => {
    buttons.forEach((button, i) => {
      button.setAttribute("aria-selected", String(i === chosen));
      button.setAttribute("tabindex", i === chosen ? "0" : "-1");
      panels[i].hidden = i !== chosen;
    });
  };
  const list = h("div", {role: "tablist", class: "tablist", "aria-label": label});
  let heading = null;
  buttons.forEach((button, i) => {
    if (entries[i].group && entries[i].group !== heading) {
      heading = entries[i].group;
      list.append(h("span", {class: "tabgroup", "aria-hidden": "true"}, heading));
    }
    list.append(button);
    button.addEventListener("click", () => select(i));
  });
  list.addEventListener("keydown", (event) => {
    const now = buttons.indexOf(document.activeElement);
    const next = {
      ArrowRight: now + 1,
      ArrowDown: now + 1,
      ArrowLeft: now - 1,
      ArrowUp: now - 1,
      Home: 0,
      End: buttons.length - 1,
    }[event.key];
    if (now < 0 || next === undefined) return;
    event.preventDefault();
    const chosen = (next + buttons.length) % buttons.length;
    select(chosen);
    buttons[chosen].focus();
  });
  return h("div", {class: "tabs"}, list, panels);
}

// ---- the frame

function section(id, title, ...children) {
  return h("section", {id, "aria-labelledby": `${id}-title`}, h("h2", {id: `${id}-title`}, title), children);
}

function isDark() {
  const chosen = document.documentElement.dataset.theme;
  return chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
}

function themeButton() {
  const button = h("button", {type: "button", class: "theme"}, forEyes("\u25d0 "), "Dark colours");
  const show = () => button.setAttribute("aria-pressed", String(isDark()));
  button.addEventListener("click", () => {
    const theme = isDark() ? "light" : "dark";
    document.documentElement.dataset.theme = theme;
    try {
      localStorage.setItem("dflash-theme", theme);
    } catch (refused) {
      // No storage: the choice lasts as long as the page.
    }
    show();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", show);
  show();
  return button;
}

/** page: { kicker, title, lede: [children], contents: [[id, short, long]], sections: [elements], commands: [texts] } */
function frame(page) {
  const there = new Set(page.sections.flat(Infinity).filter(Boolean).map((element) => element.id));
  const links = page.contents.filter(([id]) => there.has(id))
                  .map(
                    ([id, short, long]) =>
                      h("a", {href: `#${id}`}, h("span", {class: "short", "aria-hidden": "true"}, short),
                        h("span", {class: "long"}, long)));
  document.getElementById("page").append(
    h("header", {class: "top"}, h("p", {class: "kicker"}, page.kicker), themeButton(), h("h1", null, page.title),
      page.lede),
    h("nav", {class: "contents", "aria-label": "Contents"}, h("ul", null, links.map((link) => h("li", null, link)))),
    h("main", {id: "main", tabindex: "-1"}, page.sections),
    h("footer", null, h("h2", null, "How this page was made"),
      h("p", null, "By one command; the page is a single file and asks nothing of any network."),
      page.commands.map((command) => h("pre", null, h("code", null, command)))));
  markWhereWeAre(links);
}

/** The link of the section that is being read is the current one. */
function markWhereWeAre(links) {
  const byId = new Map(links.map((link) => [link.getAttribute("href").slice(1), link]));
  const seen = new IntersectionObserver((entries) => {
    for (const entry of entries.filter((e) => e.isIntersecting)) {
      links.forEach((link) => link.removeAttribute("aria-current"));
      byId.get(entry.target.id).setAttribute("aria-current", "true");
    }
  }, {rootMargin: "-20% 0px -75% 0px"});
  for (const id of byId.keys()) seen.observe(document.getElementById(id));
}

// ---- the start

/** An error is shown to the reader, and kept where a test finds it. */
function complain(message) {
  const errors = document.documentElement.dataset;
  errors.errors = errors.errors ? `${errors.errors}; ${message}` : message;
  document.body.prepend(h("p", {class: "notice", role: "alert"}, `This page could not be drawn: ${message}`));
}

window.addEventListener("error", (event) => complain(event.message));
window.addEventListener("unhandledrejection", (event) => complain(String(event.reason)));
for (const kind of ["error", "warn"]) {
  const write = console[kind].bind(console);
  console[kind] = (...parts) => {
    write(...parts);
    complain(parts.join(" "));
  };
}

document.addEventListener("DOMContentLoaded", () => {
  const data = JSON.parse(document.getElementById("data").textContent);
  if (data.format === "dflash-lesson 1")
    drawLesson(data);
  else if (data.format === "dflash-trace 1")
    drawRun(data);
  else
    throw new Error(`the data has the unknown format ${data.format}`);
  document.documentElement.dataset.drawn = "yes";
});
