// Rounds and caches, which lessons and runs draw alike.
"use strict";

/**
 * One round, position by position. round: { start, anchor, drafts, posterior, accepted, committed } with tokens as
 * they are shown. Drafts behind the first mismatch were never looked at.
 */
function strip(round) {
  const column = (kind, position, draft, target, mark, verdict, commits) =>
    h("li", {class: kind}, h("span", {class: "at"}, onlyForEars("position "), String(position)),
      h("span", {class: "draft"}, onlyForEars(", draft "), draft),
      h("span", {class: "says"}, onlyForEars(", the target says "), target),
      h("span", {class: "mark"}, forEyes(mark), onlyForEars(`, ${verdict}`)),
      h("span", {class: "commits"}, commits === null ? forEyes("\u00b7") : [onlyForEars(", commits "), commits]));
  const columns = [column("anchor", round.start, round.anchor, forEyes("\u00b7"), "anchor", "the anchor, known", null)];
  const count = round.drafts.length;
  for (let i = 0; i <= count; ++i) {
    const target = round.posterior[i] === undefined ? forEyes("\u00b7") : round.posterior[i];
    const commits = i < round.committed.length ? round.committed[i] : null;
    const position = round.start + 1 + i;
    const equal = round.drafts[i] === round.posterior[i];  // a lesson with a mistake may accept what is not
    if (i < round.accepted) {
      const verdict = !equal ? "not equal, and yet accepted" :
        commits === null     ? "equal, but the text has ended" :
                               "equal: accepted";
      columns.push(column("accepted", position, round.drafts[i], target, equal ? "=" : "\u00d7", verdict, commits));
    } else if (i === round.accepted) {
      const bonus = i === count;
      const mark = commits === null ? "end" : bonus ? "bonus" : equal ? "=" : "\u00d7";
      const verdict = commits === null ? "the text has ended" :
        bonus                          ? "bonus" :
        equal                          ? "equal, and yet refused" :
                                         "not equal: correction";
      columns.push(column(
        commits === null ? "unread" :
          bonus          ? "bonus" :
                           "correction",
        position, bonus ? forEyes("\u00b7") : round.drafts[i], target, mark, verdict, commits));
    } else if (i < count) {
      columns.push(column("unread", position, round.drafts[i], target, "\u00b7", "not looked at", null));
    }
  }
  const key =
    h("div", {class: "key", "aria-hidden": "true"},
      ["position", "draft", "target says", "verdict", "commits"].map((text) => h("span", null, text)));
  return h("div", {class: "strip"}, key, h("ol", null, columns));
}

/** Many rounds: the first ones, and the rest behind a click. */
function folded(rounds) {
  const open = 12;
  return [
    rounds.slice(0, open),
    rounds.length > open &&
      h("details", null, h("summary", null, `Rounds ${open + 1} to ${rounds.length}`), rounds.slice(open))
  ];
}

/**
 * The caches after each round as bars over positions. rows: [{ name, target, draft, fresh, anchor }], where anchor is
 * the position of the newest token, which no cache holds. The numbers are in the table beside it.
 */
function timeline(rows) {
  const length = Math.max(1, ...rows.map((row) => row.anchor + 1));
  const percent = (n) => `${(100 * n) / length}%`;
  const step = length <= 20 ? 1 : length <= 100 ? 10 : length <= 400 ? 50 : 200;
  const ticks = [];
  for (let p = 0; p < length; p += step) {
    ticks.push(h("span", {class: p % (2 * step) ? "tick odd" : "tick", "--at": percent(p + 0.5)}, String(p)));
  }
  const lane = (kind, held, fresh) =>
    h("span", {class: `lane ${kind}`}, h("span", {class: "held", "--from": "0%", "--wide": percent(held - fresh)}),
      h("span", {class: "fresh", "--from": percent(held - fresh), "--wide": percent(fresh)}));
  let before = 0;
  return h(
    "div", {class: "timeline", "aria-hidden": "true"},
    h("div", {class: "row axis"}, h("span", {class: "name"}, "position"), h("span", {class: "track"}, ticks)),
    rows.map((row) => {
      const grown = row.target - before;
      before = row.target;
      return h(
        "div", {class: "row"}, h("span", {class: "name"}, row.name),
        h("span", {class: "track"}, lane("target", row.target, Math.max(0, grown)), lane("draft", row.draft, row.fresh),
          h("span", {class: "anchor", "--at": percent(row.anchor + 0.5)})));
    }));
}

const timelineLegend = () =>
  h("ul", {class: "legend"}, h("li", null, h("span", {class: "swatch target"}), "target's cache"),
    h("li", null, h("span", {class: "swatch draft"}), "draft's cache"),
    h("li", null, h("span", {class: "swatch fresh"}), "new in this round (striped)"),
    h("li", null, h("span", {class: "swatch anchor"}), "anchor: the newest token, in no cache yet"));
