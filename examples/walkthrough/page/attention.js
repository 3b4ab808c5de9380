// The pictures of step 4: what K and V are made of, where queries and keys stand, who attends to whom.
"use strict";

const held = (step, id) => step.expects.find((one) => one.id === id).held;

function kvTable(step) {
  const right = held(step, "context-rows-skip-the-input-norm") && held(step, "block-rows-share-the-weights");
  const row = (one) =>
    h("tr", {class: one.context ? "ctx" : "blk"}, h("th", {scope: "row"}, String(one.position)),
      h("td", null, String(one.position)), h("td", {class: "maths"}, one.context ? "C" : "norm(H)"),
      h("td", null, one.what));
  const context = step.kv_rows.filter((one) => one.context);
  const block = step.kv_rows.filter((one) => !one.context);
  return scrollBox(
    "Rows of K and V",
    h("table", {class: "plain kv", "data-table": "kv"},
      captionOf(
        right ? "What each row of K and V is made of" :
                "What each row of K and V should be made of; with this mistake it is not"),
      h("thead", null,
        h("tr", null,
          ["Row of K, V", "position", "made of", "what it is"].map((text) => h("th", {scope: "col"}, text)))),
      h("tbody", null, context.map(row)),
      h("tbody", null,
        h("tr", {class: "border"},
          h("td", {colspan: "4"}, "the injection boundary: rows of the target above, rows of the block below")),
        block.map(row))));
}

/** One position as a turned hand. */
function dial(cos, sin, texts, label, query) {
  const [x, y] = [22 * cos, -22 * sin];
  const kind = query ? "blk" : "ctx";
  return h(
    "li", {class: kind},
    svg(
      "svg",
      {viewBox: "-32 -32 64 64", role: "img", "aria-label": `position ${label}: cos ${texts[0]}, sin ${texts[1]}`},
      svg("circle", {r: 22, class: "rim"}), svg("line", {x1: 22, y1: 0, x2: 27, y2: 0, class: "zero"}),
      query ? svg("circle", {r: 29, class: "queryring"}) : null,
      svg("line", {x1: 0, y1: 0, x2: x, y2: y, class: "hand"}), svg("circle", {cx: x, cy: y, r: 4, class: "tip"}),
      svg("circle", {r: 1.8, class: "hub"})),
    h("span", {class: "label"}, placeLabel(label)));
}

function rotationPicture(step) {
  const cos = step.tables.find((table) => table.name === "cos");
  const sin = step.tables.find((table) => table.name === "sin");
  const pairs = cos.shape[1];
  const chosen = [...new Set([0, 2, 4, pairs - 1])].filter((f) => f < pairs);
  const start = step.kv_rows.findIndex((row) => !row.context);
  const at = (table, p, f) => table.values[p * pairs + f];
  const text = (table, p, f) => table.blocks[0][p][table.shown.indexOf(f)];
  const row = (f, i) =>
    h("div", {class: "turns"},
      pairs > 1 &&
        h("p", {class: "pair"},
          `coordinate pair ${f} of ${pairs}` +
            (i === 0           ? ", the fastest" :
               f === pairs - 1 ? ", the slowest" :
                                 "")),
      h("ol", {class: "dials"},
        cos.rows.map(
          (label, p) => dial(at(cos, p, f), at(sin, p, f), [text(cos, p, f), text(sin, p, f)], label, p >= start))));
  return h(
    "figure", {class: "rotations"},
    h("figcaption", null, "Every position is a turn. Keys stand at all seven; the four queries stand at positions ",
      cos.rows.slice(start).map((label) => label.split(" ")[0]).join(" "), ", the dials with a dashed ring.",
      !held(step, "queries-stand-at-3-to-6") &&
        h("strong", null, " With this mistake the queries are turned elsewhere: see Q and the sentences below.")),
    chosen.map(row), distancePicture(cos, sin, start, pairs));
}

/** Two hands, and the turn between them. */
function distancePicture(cos, sin, start, pairs) {
  const angle = Math.atan2(sin.values[pairs], cos.values[pairs]);
  const positions = cos.rows.length;
  const choose = (id, label, from, chosen) =>
    h("label",
      { for: id
      },
      `${label} `,
      h("select", {id},
        cos.rows.slice(from).map(
          (name, i) => h("option", {value: String(from + i), selected: from + i === chosen}, name))));
  const picture = svg("svg", {viewBox: "-60 -60 120 120", role: "img"});
  const said = h("p", {class: "said", role: "status"});
  const query = choose("query", "query at", start, start + 2);
  const key = choose("key", "key at", 0, 2);
  const draw = () => {
    const q = Number(query.querySelector("select").value);
    const k = Number(key.querySelector("select").value);
    const hand = (p, length, kind) => {
      const [x, y] = [length * Math.cos(p * angle), -length * Math.sin(p * angle)];
      return [
        svg("line", {x1: 0, y1: 0, x2: x, y2: y, class: `hand ${kind}`}),
        svg("circle", {cx: x, cy: y, r: kind === "query" ? 6 : 4, class: `tip ${kind}`})
      ];
    };
    const points = [];
    const turns = 80;
    for (let i = 0; i <= turns; ++i) {
      const at = (k + ((q - k) * i) / turns) * angle;
      const radius = 12 + (18 * i) / turns;
      points.push(`${(radius * Math.cos(at)).toFixed(2)},${(-radius * Math.sin(at)).toFixed(2)}`);
    }
    picture.replaceChildren();
    picture.setAttribute("aria-label", `the turn from key ${k} to query ${q}`);
    append(picture, [
      svg("circle", {r: 52, class: "rim"}), svg("polyline", {points: points.join(" "), class: "between"}),
      hand(k, 40, k < start ? "ctx" : "blk"), hand(q, 52, "query"), svg("circle", {r: 2.5, class: "hub"})
    ]);
    const distance = q - k;
    const others = [];
    for (let i = start; i < positions; ++i) {
      if (i !== q && i - distance >= 0 && i - distance < positions) others.push(`${i} and ${i - distance}`);
    }
    said.replaceChildren();
    append(said, [
      h("strong", null, `${q} \u2212 ${k} = ${String(distance).replace("-", "\u2212")}`),
      distance === 0 ? ": the same place, no turn between them." :
                       `: the score of this pair sees a turn of ${Math.abs(distance)} ` +
          `position${Math.abs(distance) === 1 ? "" : "s"}${
                         distance < 0 ? ", backwards" : ""}, and nothing else of where the two stand. `,
      others.length > 0 && distance !== 0 && `The same turn lies between ${others.join(", ")}.`
    ]);
  };
  query.addEventListener("change", draw);
  key.addEventListener("change", draw);
  draw();
  return h(
    "div", {class: "distance"}, picture,
    h("div", null, h("h4", null, "Only the distance counts"), h("p", {class: "choices"}, query, key), said));
}

/** Attention of one head: weights in the cells, context left of the boundary. */
function heatTable(table, block, darkest) {
  const [queries, keys] = table.shape.slice(-2);
  const offset = block * queries * keys;
  const changed = table.changed && table.changed.cells ? table.changed.cells[block] : null;
  const groups = table.boundary ?
    h("tr", {class: "groups"}, h("td", null),
      h("th", {scope: "colgroup", colspan: String(table.boundary), class: "ctx"}, "the target's rows"),
      h("th", {scope: "colgroup", colspan: String(keys - table.boundary), class: "blk first"}, "the block's rows")) :
    null;
  return h(
    "table", {class: "heat", "data-table": table.name, "data-head": String(block)}, tensorCaption(table, block),
    table.boundary ?
      [
        h("colgroup", null, h("col")), h("colgroup", {span: String(table.boundary)}),
        h("colgroup", {span: String(keys - table.boundary)})
      ] :
      null,
    h("thead", null, groups,
      h("tr", null, h("td", {class: "corner"}, "query \u2193 key \u2192"),
        table.columns.map(
          (label, c) =>
            h("th", {scope: "col", class: boundaryClass(table, c, "columns").trim() || "blk"}, placeLabel(label))))),
    h("tbody", null,
      table.blocks[block].map(
        (row, r) => h(
          "tr", null, h("th", {scope: "row"}, placeLabel(table.rows[r])),
          row.map(
            (text, c) =>
              h("td", {
                class:
                  `${boundaryClass(table, c, "columns").trim() || "blk"}${changed && changed[r][c] ? " changed" : ""}`,
                "--weight": String(Math.max(0, table.values[offset + r * keys + c] || 0) / darkest),
              },
                text))))));
}

/** out of every query as a sum: the widths are the weights. */
function sharePicture(table, block) {
  const [queries, keys] = table.shape.slice(-2);
  const weight = (r, c) => table.values[(block * queries + r) * keys + c] || 0;
  const parts = (r) => table.columns.map(
    (label, c) =>
      h("span", {
        class: c < table.boundary ? "ctx" :
          c === table.boundary    ? "blk first" :
                                    "blk",
        "--weight": String(Math.max(0, weight(r, c))),
      },
        label.split(" ")[0]));
  return h(
    "figure", {class: "shares"},
    h("div", {"aria-hidden": "true"},
      table.rows.map(
        (label, r) =>
          h("div", {class: "share"}, h("span", {class: "name"}, typeset(`out_${label.split(" ")[0]}`)),
            h("span", {class: "parts"}, parts(r))))),
    h("figcaption", null,
      table.boundary ?
        "What out is a sum of: rows of V, as wide as their weights. Left of the gap the part that was injected." :
        "What out is a sum of: rows of V, as wide as their weights. Nothing was injected."));
}

function thumbnail(table, block, darkest) {
  const [queries, keys] = table.shape.slice(-2);
  const cells = [];
  for (let i = 0; i < queries * keys; ++i) {
    cells.push(h("i", {
      class: i % keys < table.boundary ? "ctx" : "blk",
      "--weight": String(Math.max(0, table.values[block * queries * keys + i] || 0) / darkest)
    }));
  }
  return h("span", {class: "thumbnail", "aria-hidden": "true", "--columns": String(keys)}, cells);
}

function sightTable(caption, columns, rows, boundary) {
  return h(
    "table", {class: "sight"}, h("caption", null, caption),
    h("thead", null, h("tr", null, h("td", null), columns.map((label) => h("th", {scope: "col"}, label)))),
    h("tbody", null,
      rows.map(
        ([label, seen]) =>
          h("tr", null, h("th", {scope: "row"}, label),
            seen.map(
              (sees, c) =>
                h("td", {
                  class: `${sees ? "sees" : "blind"} ${
                    c < boundary                     ? "ctx" :
                      c === boundary && boundary > 0 ? "blk first" :
                                                       "blk"}`
                },
                  forEyes(sees ? "\u25cf" : "\u00d7"), onlyForEars(sees ? "seen" : "hidden")))))));
}

function sightPicture(step) {
  const keys = step.sights[0].keys.length;
  const block = step.sights[0].left_only.length;
  const place = (label) => label.split(" ")[0];
  const positions = step.kv_rows.map((row) => String(row.position));
  return h(
    "div", {class: "sights"},
    sightTable(
      "Left to right (EAGLE): a slot sees what is to its left, and no context", positions.slice(-block),
      step.sights.map((one) => [place(one.query), one.left_only]), 0),
    sightTable(
      `${
        held(step, "every-slot-sees-all") ?
          "Here" :
          "As it should be"}: every slot sees the context and the whole block, both ways`,
      positions.slice(-keys), step.sights.map((one) => [place(one.query), one.keys]), keys - block));
}

function attentionPicture(step) {
  const layers = step.tables.filter((table) => table.name.startsWith("A, layer "));
  const darkest = Math.max(1e-9, ...layers.flatMap((table) => table.values.map((value) => value || 0)));
  const ofLayer = (what, table) => step.tables.find((other) => other.name === table.name.replace("A,", `${what},`));
  const entries = layers.flatMap(
    (table) => table.blocks.map(
      (_, head) => ({
        group: layers.length > 1 ? table.name.replace("A, ", "") : null,
        button: [
          thumbnail(table, head, darkest), layers.length > 1 && onlyForEars(`${table.name.replace("A, ", "")}, `),
          `head ${head}`
        ],
        panel:
          h("div", {class: "head-panel"}, scrollBox(`${table.name}, head ${head}`, heatTable(table, head, darkest)),
            sharePicture(table, head),
            h("details", null, h("summary", null, "Q, K and V of this head"),
              h("div", {class: "tensors"}, ["Q", "K", "V"].map((what) => boxedTensor(ofLayer(what, table), head))))),
      })));
  return h("div", {class: "attention"}, tabs("Layer and head", entries));
}

function stepFour(step) {
  const rest = step.tables.filter((table) => /^out/.test(table.name));
  const turns = step.tables.filter((table) => table.name === "cos" || table.name === "sin");
  return [
    h("h3", null, "Injection: seven rows of K and V, three of them from the target"),
    kvTable(step),
    h("h3", null, "Position: queries and keys are turned"),
    rotationPicture(step),
    h("details", null, h("summary", null, "cos and sin of the seven positions"),
      h("div", {class: "tensors"}, turns.map(tensor))),
    h("h3", null, "Attention: four queries, seven keys, no causal mask"),
    h("div", {class: "who"}, attentionPicture(step), sightPicture(step)),
    h("h3", null, "Out"),
    h("div", {class: "tensors"}, rest.map(tensor)),
  ];
}
