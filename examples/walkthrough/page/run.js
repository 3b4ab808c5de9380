// The page of a real run: who gave each token, every round, the caches, and what it came to.
"use strict";

/** What a token decodes to, with blanks that can be seen; bytes that are no characters in hexadecimal. */
function pieceText(data, id) {
  const piece = data.pieces[id];
  if (piece === undefined) return String(id);
  if (piece.bytes !== undefined) return `\u27e8${piece.bytes}\u27e9`;
  if (piece.text === undefined) return `\u27e8${id}\u27e9`;
  return piece.text === "" ? "\u2205" :
                             piece.text.replace(/ /g, "\u2423").replace(/\n/g, "\u21b5").replace(/\t/g, "\u21e5");
}

/** A token inside running text: real blanks and lines, ids where there is no tokenizer. */
function tokenInText(data, id, kind, title) {
  const piece = data.pieces[id];
  const special = piece === undefined || piece.text === undefined || piece.special === true || piece.text === "";
  const text = piece === undefined ? `${id} ` : special ? pieceText(data, id) : piece.text;
  return h("span", {class: `token ${kind}${special && piece !== undefined ? " special" : ""}`, title}, text);
}

/** Who gave the i-th token of a round. */
function giver(round, i) {
  if (i < round.accepted) return "drafted";
  return i < round.drafts.length ? "correction" : "bonus";
}

const givers = {
  prompt: "the prompt",
  first: "the first token, from prefill",
  drafted: "drafted and accepted",
  correction: "correction: the target\u2019s token where the draft was wrong",
  bonus: "bonus: the target\u2019s token after drafts that were all right",
};

function coloredText(data) {
  const parts = data.prompt.map((id) => tokenInText(data, id, "prompt", "prompt"));
  const counts = {first: 0, drafted: 0, correction: 0, bonus: 0};
  data.rounds.forEach((round, r) => round.committed.forEach((id, i) => {
    const kind = r === 0 ? "first" : giver(round, i);
    counts[kind] += 1;
    parts.push(tokenInText(data, id, kind, r === 0 ? "prefill" : `round ${r}, ${kind}`));
  }));
  return section(
    "text", "The text, and who gave each token",
    h("ul", {class: "legend tokens"},
      Object.entries(givers).map(
        ([kind, what]) =>
          h("li", null, h("span", {class: `token ${kind}`}, kind === "prompt" ? "prompt" : "token"), ` ${what}`,
            counts[kind] !== undefined && h("span", {class: "count", "data-count": kind}, ` (${counts[kind]})`)))),
    h("p", {class: "running"}, parts));
}

/** A horizontal bar beside its number. */
const bar = (value, most, kind) =>
  h("td", {class: "bar", "aria-hidden": "true"},
    h("span", {class: kind, "--wide": `${most > 0 ? (100 * value) / most : 0}%`}));

function barTable(name, caption, head, rows) {
  const most = Math.max(1, ...rows.map((row) => row.most));
  return h(
    "table", {class: "plain bars", "data-table": name}, captionOf(caption),
    h("thead", null,
      h("tr", null, head.map((text) => h("th", {scope: "col"}, text)), h("td", {"aria-hidden": "true"}))),
    h("tbody", null,
      rows.map(
        (row) =>
          h("tr", null, h("th", {scope: "row"}, row.name), row.cells.map((text) => h("td", {class: "num"}, text)),
            bar(row.value, row.own ? row.most : most, row.kind)))));
}

function statisticsSection(data) {
  const texts = data.texts;
  const tile = (name, value, more) =>
    h("div", null, h("dt", null, name), h("dd", null, h("strong", null, value), more && h("span", null, more)));
  const lengths = texts.lengths.map(
    ([length, count]) => ({name: String(length), cells: [String(count)], value: count, most: count, kind: "count"}));
  const slots = data.statistics.slot_drafted.map((drafted, i) => ({
                                                   name: String(i + 1),
                                                   cells: [String(data.statistics.slot_accepted[i]), String(drafted)],
                                                   value: data.statistics.slot_accepted[i],
                                                   most: drafted,
                                                   own: true,
                                                   kind: "share",
                                                 }));
  const seconds = Object.entries(texts.seconds);
  return section(
    "statistics", "What it came to",
    h("dl", {class: "tiles"},
      tile("mean acceptance length", texts.mean_acceptance_length, `tokens a round, of ${data.block_size} at most`),
      tile("tokens", String(data.statistics.tokens), `finish: ${data.statistics.finish_reason}`),
      tile("rounds", String(data.statistics.rounds), "passes of the target after the prompt"),
      tile("tokens per second", texts.tokens_per_second, `${texts.seconds.total} s in all`)),
    h("div", {class: "columns"},
      h("div", null,
        lengths.length > 0 &&
          scrollBox(
            "Rounds by acceptance length",
            barTable("lengths", "Rounds by acceptance length (tokens committed)", ["length", "rounds"], lengths)),
        scrollBox("Seconds", plainTable("seconds", "Seconds", ["part", "seconds"], seconds, [1]))),
      slots.length > 0 &&
        scrollBox(
          "Acceptance by slot",
          barTable("slots", "Acceptance by slot of the block", ["slot", "accepted", "drafted"], slots))));
}

function runRounds(data) {
  const word = (id) => pieceText(data, id);
  const whole = (round, r) =>
    h("div", {class: "round", "data-round": String(r)},
      h("h3", null, `Round ${r}`,
        h("span", {class: "gist"},
          `accepted ${round.accepted} of ${round.drafts.length}, commits ${round.committed.length}`)),
      strip({
        start: round.start,
        anchor: word(round.anchor),
        drafts: round.drafts.map(word),
        posterior: round.posterior.map(word),
        accepted: round.accepted,
        committed: round.committed.map(word)
      }));
  const rounds = data.rounds.slice(1).map((round, i) => whole(round, i + 1));
  return section(
    "rounds", "Round by round",
    h("p", {class: "soft"},
      "\u2423 is a blank, \u21b5 a new line. Behind the first mismatch the target saw a draft that does not stand, " +
        "so nothing there counts."),
    folded(rounds));
}

function runCaches(data) {
  const name = (r) => (r === 0 ? "prefill" : String(r));
  const after = (round, r) => (r === 0 ? data.prompt.length : round.start + round.committed.length);
  const rows = data.rounds.map(
    (round, r) =>
      [name(r), r === 0 ? "-" : String(round.start), r === 0 ? "-" : String(round.drafts.length),
       r === 0 ? "-" : String(round.accepted), String(round.committed.length), String(round.target_rows),
       String(round.draft_rows), String(round.fresh_rows), String(after(round, r))]);
  return section(
    "caches", "What the caches hold after each round",
    h("figure", null, timeline(data.rounds.map((round, r) => ({
                                                 name: name(r),
                                                 target: round.target_rows,
                                                 draft: round.draft_rows,
                                                 fresh: round.fresh_rows,
                                                 anchor: after(round, r)
                                               }))),
      timelineLegend()),
    h("details", null, h("summary", null, "The same in numbers"),
      scrollBox(
        "The caches in numbers",
        plainTable(
          "ledger", "The ledger of the run",
          [
            "round", "block starts at", "drafts", "accepted", "commits", "target rows", "draft rows",
            "fresh feature rows", "next anchor at"
          ],
          rows, [1, 2, 3, 4, 5, 6, 7, 8]))));
}

function drawRun(data) {
  document.title = `A run of ${data.target} with DFlash`;
  frame({
    kicker: "dflash \u00b7 a real run",
    title: "A run, round by round",
    lede: [
      h("p", {class: "lede"}, h("code", null, data.target), " with the draft ", h("code", null, data.draft),
        `, blocks of ${data.block_size}, the anchor included.`),
      h("p", {class: "soft"},
        "The text is the one the target alone would give; the draft only decides in how few passes.")
    ],
    contents: [
      ["statistics", "Result", "What it came to"], ["text", "Text", "The text"], ["rounds", "Rounds", "Round by round"],
      ["caches", "Caches", "The caches"]
    ],
    sections: [
      statisticsSection(data), coloredText(data), data.rounds.length > 1 && runRounds(data),
      data.rounds.length > 0 && runCaches(data)
    ],
    commands:
      ["dflash-generate --prompt \"\u2026\" --trace run.json", "dflash-walkthrough --from run.json --html page.html"],
  });
}
