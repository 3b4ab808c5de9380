// The page of a lesson: seven steps, their pictures, and the rounds after them.
"use strict";

// ---- tensors

const shapeText = (table) => `[${table.shape.join(", ")}]`;

/** Which rows or columns begin the block, when the table has both kinds. */
function boundaryClass(table, at, axis) {
  const along = table.name.startsWith("A,") ? "columns" : "rows";
  if (!table.boundary || axis !== along) return "";
  return at < table.boundary ? " ctx" : at === table.boundary ? " blk first" : " blk";
}

function tensorCaption(table, block) {
  return captionOf(
    h("span", {class: "name"}, typeset(table.name)), " ", h("span", {class: "shape"}, shapeText(table)),
    table.blocks.length > 1 && h("span", {class: "head"}, ` head ${block}`),
    table.changed && h("span", {class: "difference"}, table.changed.summary));
}

/** One block of a tensor as the text output shows it: long rows by their ends. */
function tensorTable(table, block) {
  const name = (c) => (c < 0 ? "..." : table.columns.length ? table.columns[c] : String(c));
  const best = table.best ? table.best[block] : null;
  const changed = table.changed && table.changed.cells ? table.changed.cells[block] : null;
  const cell = (text, r, i) => {
    const c = table.shown[i];
    const classes = [
      c < 0 && "left-out",
      best && best[r] === c && "best",
      changed && changed[r][i] && "changed",
      boundaryClass(table, c, "columns").trim(),
    ].filter(Boolean).join(" ");
    return h("td", {class: classes || null}, best && best[r] === c ? h("strong", null, text) : text);
  };
  return h(
    "table", {class: "tensor", "data-table": table.name, "data-head": String(block)}, tensorCaption(table, block),
    h("thead", null,
      h("tr", null, h("td", null),
        table.shown.map((c) => h("th", {scope: "col", class: table.columns.length ? null : "counted"}, name(c))))),
    h("tbody", null,
      table.blocks[block].map(
        (row, r) =>
          h("tr", {class: boundaryClass(table, r, "rows").trim() || null},
            h("th", {scope: "row"}, table.rows.length ? table.rows[r] : ""), row.map((text, i) => cell(text, r, i))))));
}

const boxedTensor = (table, block) => scrollBox(
  `${table.name}, ${table.blocks.length > 1 ? `head ${block}` : shapeText(table)}`, tensorTable(table, block));

/** A tensor with all its heads: side by side when there are two, else one at a time. */
function tensor(table) {
  const blocks = table.blocks.map((_, b) => b);
  if (blocks.length <= 2) return h("div", {class: "tensors"}, blocks.map((b) => boxedTensor(table, b)));
  return tabs(`${table.name}: heads`, blocks.map((b) => ({button: [`head ${b}`], panel: boxedTensor(table, b)})));
}

// ---- step 1: what is tapped

function tapsPicture(data) {
  const setting = new Map(data.setting);
  const layers = Number(setting.get("target layers"));
  const taps = setting.get("tapped layers").split("/").map(Number);
  const words = data.prompt.map((id) => data.words[id]);
  const rows = [];
  for (let l = layers - 1; l >= 0; --l) {
    const tapped = taps.includes(l);
    rows.push(
      h("div", {class: tapped ? "layer tapped" : "layer"}, h("span", {class: "name"}, `layer ${l}`),
        words.map(() => h("span", {class: "state"}, tapped ? `h(${l})` : "")),
        h("span", {class: "to"}, tapped ? "\u2192 raw" : "")));
  }
  return h(
    "figure", {class: "taps"},
    h("div", {"aria-hidden": "true", "--columns": String(words.length)}, rows,
      h("div", {class: "layer feet"}, h("span", {class: "name"}, ""),
        words.map((word, p) => h("span", null, h("span", {class: "pos"}, String(p)), ` ${word}`)),
        h("span", {class: "to"}))),
    h("figcaption", null,
      `Of the target's ${layers} layers, ${taps.join(", ").replace(/, (\d+)$/, " and $1")} are tapped, at every ` +
        "position of the prompt. The tapped rows of one position, side by side, are its row of raw."));
}

// ---- steps

function expectList(step) {
  return h(
    "ul", {class: "expects"},
    step.expects.map(
      (one) =>
        h("li", {id: `expect-${one.id}`, class: one.held ? "held" : "broken"},
          h("strong", null, one.held ? "ok" : "FALSE"), " ", h("span", null, typeset(one.sentence)))));
}

/** A round of the ledger with words for tokens; the one before it tells where it began. */
function wordsOf(data, r) {
  const word = (id) => (data.words[id] === undefined ? "?" : data.words[id]);
  const [before, row] = [data.ledger[r - 1], data.ledger[r]];
  return {
    start: before.start,
    anchor: word(before.anchor),
    drafts: row.drafts.map(word),
    posterior: row.posterior.map(word),
    accepted: row.accepted,
    committed: row.committed.map(word)
  };
}

function drawStep(data, step) {
  const pictures = {
    1: () => tapsPicture(data),
    4: () => stepFour(step),
    6: () => (
      data.ledger.length > 1 ?
        h("figure", {class: "round"}, strip(wordsOf(data, 1)),
          h("figcaption", null,
            "The block of round 1, position by position. Drafts stand while they equal what the target says; the " +
              "first that does not is replaced.")) :
        null),
  };
  const own = pictures[step.number] ? pictures[step.number]() : null;
  return section(
    `step-${step.number}`, [h("span", {class: "step-number"}, `Step ${step.number}`), " ", typeset(step.title)],
    h("div", {class: "formulas"}, step.formulas.map(formulaLine)), own,
    step.number === 4 ? null : h("div", {class: "tensors"}, step.tables.map(tensor)),
    step.remarks.length > 0 &&
      h("div", {class: "remarks"}, step.remarks.map((remark) => h("p", null, typeset(remark)))),
    expectList(step));
}

// ---- the whole round in one table

function overview(data) {
  const rows = data.steps[3].kv_rows;
  const word = (id) => (data.words[id] === undefined ? "?" : data.words[id]);
  const start = rows.findIndex((row) => !row.context);
  const [prefill, round] = data.ledger;
  const mask = "MASK";
  const side = (p) => (p < start ? "ctx" : p === start ? "blk first" : "blk");
  const lane = (name, note, cell) =>
    h("tr", null, h("th", {scope: "row"}, name, note && h("span", {class: "note"}, note)), rows.map((row, p) => {
      const [kind, ...content] = [cell(p, row)].flat();
      return h("td", {class: `${side(p)} ${content.length ? kind : "void"}`}, content);
    }));
  const lanes = [
    lane(
      "before", null,
      (p) =>
        [p < start     ? "given" :
           p === start ? "given anchor" :
                         "masked",
         p < start     ? word(data.prompt[p]) :
           p === start ? word(prefill.committed[0]) :
                         mask]),
    lane("K, V", "made of", (p, row) => ["made", h("span", {class: "maths"}, row.context ? "C" : "H")]),
  ];
  if (round) {
    const judged = (p) => p - start - 1;
    lanes.push(
      lane(
        "drafts", "all at once",
        (p) =>
          (p > start && round.drafts[judged(p)] !== undefined ? ["drafted", word(round.drafts[judged(p)])] : ["void"])),
      lane(
        "target", "in one pass",
        (p) =>
          (p > start && round.posterior[judged(p)] !== undefined ?
             [judged(p) > round.accepted ? "unread" : "told", word(round.posterior[judged(p)])] :
             ["void"])),
      lane(
        "verdict", null,
        (p) =>
          (p <= start || judged(p) > round.accepted ?
             ["void"] :
             [
               judged(p) < round.accepted ? "good" : "bad",
               forEyes(round.drafts[judged(p)] === round.posterior[judged(p)] ? "=" : "\u00d7"),
               onlyForEars(judged(p) < round.accepted ? "accepted" : "correction")
             ])),
      lane(
        "after", null,
        (p) =>
          (p <= start ? ["given", p < start ? word(data.prompt[p]) : word(prefill.committed[0])] :
             round.committed[judged(p)] === undefined ?
                        ["void"] :
                        [judged(p) < round.accepted ? "good" : "bad", word(round.committed[judged(p)])])));
  }
  return section(
    "picture", "The round in one picture",
    scrollBox(
      "The round in one picture",
      h("table", {class: "overview"},
        h("caption", {class: "vh"},
          "One round, position by position; the context left, the block right of the injection boundary"),
        h("thead", null,
          h("tr", {class: "groups"}, h("td", null),
            h("th", {scope: "colgroup", colspan: String(start), class: "ctx"}, "context"),
            h("th", {scope: "colgroup", colspan: String(rows.length - start), class: "blk first"}, "block")),
          h("tr", null, h("td", null, "position"),
            rows.map((row, p) => h("th", {scope: "col", class: side(p)}, String(row.position))))),
        h("tbody", null, lanes))),
    h("p", {class: "caption"},
      "The line is the injection boundary. Left of it stand rows that the target's hidden states became (C); right of ",
      "it the block's own (H). ", "Every slot of the block looks at both sides at once."));
}

function settingSection(data) {
  return section(
    "setting", "The setting",
    h("dl", {class: "setting"},
      data.setting.map(([name, value]) => h("div", null, h("dt", null, name), h("dd", null, value)))),
    h("aside", {class: "confession", "aria-label": "Confession"},
      h("h3", null, "What was arranged so that the story happens"),
      data.confession.map((line) => h("p", null, typeset(line)))));
}

// ---- the rounds

function roundsSection(data) {
  const word = (id) => (data.words[id] === undefined ? "?" : data.words[id]);
  const listed = (ids) => (ids.length ? ids.map(word).join(" ") : "-");
  const name = (row) => (row.round === 0 ? "prefill" : String(row.round));
  const text = [data.prompt, ...data.ledger.map((row) => row.committed)].flat();
  const head = [
    "round", "drafts", "the target says", "accepted", "commits", "committed", "start", "anchor", "target rows",
    "draft rows", "fresh feature rows"
  ];
  const rows = data.ledger.map(
    (row) =>
      [name(row), listed(row.drafts), listed(row.posterior), row.round === 0 ? "-" : String(row.accepted),
       listed(row.committed), String(row.total), String(row.start), word(row.anchor), String(row.target_rows),
       String(row.draft_rows), String(row.fresh_rows)]);
  return section(
    "rounds", "The rounds, to the end", h("p", {class: "story"}, listed(text)),
    folded(data.ledger.slice(1).map(
      (row, i) =>
        h("div", {class: "round", "data-round": String(row.round)},
          h("h3", null, `Round ${row.round}`,
            h("span", {class: "gist"},
              `accepted ${row.accepted} of ${row.drafts.length}, commits ${row.committed.length}`)),
          strip(wordsOf(data, i + 1))))),
    data.stopped && h("p", {class: "notice"}, `The rounds stopped: ${data.stopped}`),
    h("h3", null, "What the caches hold after each round"),
    h("figure", null, timeline(data.ledger.map((row) => ({
                                                 name: name(row),
                                                 target: row.target_rows,
                                                 draft: row.draft_rows,
                                                 fresh: row.fresh_rows,
                                                 anchor: row.start
                                               }))),
      timelineLegend()),
    h("h3", null, "The ledger"),
    scrollBox(
      "The ledger",
      plainTable("ledger", "start, anchor and rows are those after the round", head, rows, [3, 5, 6, 8, 9, 10])));
}

// ---- the page

function mistakeBanner(data) {
  if (!data.mistake) return null;
  const broken = data.steps.flatMap((step) => step.expects.filter((one) => !one.held).map((one) => [step, one]));
  return h(
    "section", {class: "mistake", id: "mistake", "aria-labelledby": "mistake-title"},
    h("h2", {id: "mistake-title"}, "With a mistake: ", h("code", null, data.mistake.name)),
    h("p", null, data.mistake.what),
    h("p", null,
      broken.length === 1 ? "One sentence of the lesson is false now:" :
                            `${broken.length} sentences of the lesson are false now:`),
    h("ul", null,
      broken.map(
        ([step, one]) =>
          h("li", null, h("a", {href: `#expect-${one.id}`}, `Step ${step.number}`), " ", typeset(one.sentence)))),
    h("p", {class: "soft"}, "Numbers that differ from the right run are underlined with dots."));
}

function drawLesson(data) {
  document.title = data.mistake ? `${data.mistake.name}: one round of DFlash with a mistake` : document.title;
  const casts = {
    pencil: "four dimensions and every number a fraction, so that all of it can be checked on paper",
    seed: "12 layers, 512 dimensions, 8 heads of 64",
  };
  frame({
    kicker: `dflash walkthrough \u00b7 cast ${data.cast}`,
    title: "One round of DFlash",
    lede: [
      h("p", {class: "lede"},
        "A small draft guesses a whole block at once; the target checks it in one pass. The draft can guess because ",
        "its ", "attention reads rows that are made of the target\u2019s own hidden states: KV injection."),
      h("p", {class: "soft"},
        `The cast \u201c${data.cast}\u201d: ${
          casts[data.cast] || ""}. Every number on this page comes out of the library.`)
    ],
    contents: [
      ...(data.mistake ? [["mistake", "Mistake", "The mistake"]] : []), ["picture", "Picture", "In one picture"],
      ["setting", "Setting", "The setting"],
      ...data.steps.map(
        (step) => [`step-${step.number}`, String(step.number), `${step.number}  ${step.title.split(":")[0]}`]),
      ["rounds", "Rounds", "The rounds"]
    ],
    sections: [
      mistakeBanner(data), overview(data), settingSection(data), data.steps.map((step) => drawStep(data, step)),
      roundsSection(data)
    ],
    commands: [`dflash-walkthrough --cast ${data.cast}${
      data.mistake ? ` --mistake ${data.mistake.name}` : ""} --html page.html`],
  });
}
