"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const pick = (id) => document.getElementById(id);
  const root = document.documentElement;
  root.classList.add("script");
  const measureHead = () => root.style.setProperty("--head", document.querySelector("header").offsetHeight + "px");
  measureHead();
  addEventListener("resize", measureHead);

  // Counts are numbers, strings where a number would be rounded, or null where nothing is known.
  const count = (n) => n === null ? "?" : String(n).replace(/\B(?=(\d{3})+$)/g, ",");
  const percent = (part, whole) => {
    const share = 100 * Number(part) / Math.max(1, Number(whole));
    return share === 0 ? "0 %" : share < 0.05 ? "<0.1 %" : share.toFixed(1) + " %";
  };
  const make = (kind, name, text) => {
    const element = document.createElement(kind);
    if (name) element.className = name;
    if (text !== undefined) element.textContent = text;
    return element;
  };
  const fileName = (file) => data.files[file].path.split("/").pop();
  const placeText = (own, file, line) => (file === own ? "" : fileName(file) + ":") + line;
  const mark = (decision) => make("span", "d " + (/^[TF]+$/.test(decision) ? decision.slice(-1) : ""), decision);

  // The paths of each function, the hottest first, as they are in the list.
  const own = data.functions.map(() => []);
  data.paths.forEach((path, number) => own[path.f].push(number));
  // The function whose paths are listed, or all; the path whose lines are marked.
  let chosen = null, path = null, shown = 0, listed = [];

  const chain = (path) => {
    const out = make("div", "chain");
    const file = data.functions[path.f].file;
    out.append(make("i", "", path.start + " "));
    for (let number = 0; number < path.items.length; number++) {
      const [at, first, , scope] = path.items[number];
      if (number) out.append(make("i", "", " → "));
      out.append(at < 0 ? "·" : placeText(file, at, first));
      // Lines that follow one another without a decision are a range.
      let [, line, decision] = path.items[number];
      for (let next; !decision && at >= 0 && (next = path.items[number + 1]) &&
           next[0] === at && next[1] === line + 1 && next[3] === scope; number++) [, line, decision] = next;
      if (line !== first) out.append("\u2011" + line);
      if (decision) out.append(" ", mark(decision));
    }
    out.append(make("i", "", " " + path.end));
    return out;
  };

  const card = (number) => {
    const item = data.paths[number];
    const whole = chosen === null ? data.total : data.functions[chosen].measure;
    const out = make("div", "path");
    const top = make("div", "top");
    out.tabIndex = 0;
    out.dataset.p = number;
    top.append(make("b", "", percent(item.measure, whole)));
    top.append(make("span", "who", chosen === null ? data.functions[item.f].name : item.about));
    top.append(make("span", "count", count(item.count) + " × " + item.blocks + (item.blocks === 1 ? " block" : " blocks")));
    const meter = make("div", "meter");
    meter.style.width = Math.max(0.3, 100 * Number(item.measure) / Math.max(1, Number(whole))) + "%";
    out.append(top, meter, chain(item));
    out.classList.toggle("chosen", number === path);
    return out;
  };

  const STEP = 200;
  const more = () => {
    const list = pick("list");
    list.querySelector(".more")?.remove();
    const next = listed.slice(shown, shown + STEP);
    list.append(...next.map(card));
    shown += next.length;
    if (shown < listed.length) {
      const button = make("button", "more", "show more of " + count(listed.length));
      button.onclick = more;
      list.append(button);
    }
  };

  const showPaths = () => {
    const title = pick("paths-title");
    title.textContent = chosen === null ? "Hottest paths " : "Paths of " + data.functions[chosen].name + " ";
    const by = chosen === null ? "share of all " + data.by : "share of the function's " + data.by;
    title.append(make("span", "", by));
    listed = chosen === null ? data.paths.map((_, number) => number) : own[chosen];
    shown = 0;
    pick("list").replaceChildren();
    if (chosen !== null) {
      const back = make("button", "back", "← all functions");
      back.onclick = () => choose(null, path);
      pick("list").append(back);
    }
    more();
    if (chosen !== null && own[chosen].length < data.functions[chosen].taken)
      pick("list").append(make("div", "none", count(data.functions[chosen].taken - own[chosen].length) + (own[chosen].length + 1 === data.functions[chosen].taken ? " colder path is" : " colder paths are") + " not in this page"));
  };

  const textOf = (file, line) => {
    for (const [first, lines] of data.files[file].source)
      if (line >= first && line < first + lines.length) return lines[line - first];
    return "";
  };

  const showSource = () => {
    const box = pick("source");
    box.replaceChildren();
    if (chosen === null && path === null) {
      box.append(make("div", "none", "Nothing ran: there is no path to show."));
      pick("source-title").textContent = "Source";
      return;
    }
    const item = data.functions[chosen ?? data.paths[path].f];
    pick("source-title").textContent = item.name + " ";
    pick("source-title").append(make("span", "", item.place));
    pick("source-title").title = item.full;
    const facts = make("div", "facts");
    const fact = (name, value) => {
      const element = make("span", "", name + " ");
      element.append(make("b", "", value));
      facts.append(element, " ");
    };
    fact("entered", count(item.entries));
    if (item.inherited) fact("inherited", count(item.inherited));
    fact("unfinished", count(item.unfinished));
    fact("paths taken", count(item.taken) + " of " + item.possible);
    fact("instrumented", item.instrumented);
    fact("line counts", item.exact ? "exact" : "lower bounds");
    box.append(facts);

    const marks = new Map();
    if (path !== null)
      for (const [file, line, decision] of data.paths[path].items) {
        if (file < 0) continue;
        const key = file + ":" + line;
        marks.set(key, (marks.has(key) ? marks.get(key) + " " : "") + decision);
      }
    const counts = new Map(item.lines.map(([file, line, times]) => [file + ":" + line, times]));
    // The counts take the room that the longest needs.
    box.style.setProperty("--times", Math.max(0, ...item.lines.map(([, , times]) => count(times).length)) + "ch");
    const [ownFile, first, last] = item.range;
    const groups = [];
    if (first) groups.push([ownFile, first, last]);
    for (const [file, line] of item.lines) {
      if (file === ownFile && line >= first && line <= last) continue;
      const group = groups[groups.length - 1];
      const found = data.files[file].source.length > 0;
      const margin = found ? 2 : 0;
      if (groups.length > (first ? 1 : 0) && group[0] === file && line - margin <= group[2] + 1) group[2] = line + margin;
      else groups.push([file, Math.max(1, line - margin), line + margin]);
    }
    let target = null;
    groups.forEach(([file, from, to], number) => {
      const found = data.files[file].source.length > 0;
      const about = number === 0 && first ? "" : "inlined or elsewhere: ";
      box.append(make("h3", "", about + data.files[file].path + (found ? "" : " (the source was not found)")));
      for (let line = from; line <= to; line++) {
        const key = file + ":" + line;
        if (!found && !counts.has(key)) continue;
        const row = make("div", "row");
        row.append(make("span", "no", line), make("span", "times", counts.has(key) ? count(counts.get(key)) : ""));
        if (counts.get(key) === null) row.title = "not known whether it was executed";
        const signs = make("span", "mark");
        if (marks.get(key)?.trim()) signs.append(mark(marks.get(key).trim()));
        row.append(signs, make("span", "text", textOf(file, line)));
        row.classList.toggle("zero", counts.get(key) === 0);
        if (marks.has(key)) { row.classList.add("hit"); target ??= row; }
        row.dataset.line = key;
        box.append(row);
      }
    });
    // Only this section scrolls: the page stays where it is.
    const section = box.parentElement;
    const above = target ? target.getBoundingClientRect().top - section.getBoundingClientRect().top : 0;
    section.scrollTop = target ? section.scrollTop + above - section.clientHeight / 2 : 0;
  };

  const choose = (f, p, keepList) => {
    chosen = f; path = p;
    for (const row of pick("functions").tBodies[0].rows) row.classList.toggle("chosen", Number(row.dataset.f) === f);
    if (!keepList) showPaths();
    else for (const element of pick("list").children) element.classList.toggle("chosen", element.dataset.p !== undefined && Number(element.dataset.p) === p);
    showSource();
    history.replaceState(null, "", f === null ? "#" : "#f" + f + (p === null ? "" : "p" + p));
  };

  const read = () => {
    const found = /^#f(\d+)(?:p(\d+))?$/.exec(location.hash);
    const f = found && Number(found[1]) < data.functions.length ? Number(found[1]) : null;
    const p = found && found[2] !== undefined && Number(found[2]) < data.paths.length ? Number(found[2]) : null;
    // Unless the address says otherwise, the hottest path is shown.
    const hottest = f === null ? (data.paths.length ? 0 : null) : own[f][0] ?? null;
    choose(f, f === null ? hottest : p ?? hottest);
  };

  // Where sections are below one another, what was asked for comes into view.
  const bringSource = () => {
    if (matchMedia("(max-width: 1000px)").matches) pick("source").parentElement.scrollIntoView();
  };

  // Clicks, and Enter as a click.
  const onPath = (event) => {
    const element = event.target.closest(".path");
    if (!element) return;
    const number = Number(element.dataset.p);
    choose(data.paths[number].f, number, chosen !== null);
    bringSource();
  };
  pick("list").addEventListener("click", onPath);
  const onRow = (event) => {
    const row = event.target.closest("tr[data-f]");
    if (!row) return;
    choose(Number(row.dataset.f), own[Number(row.dataset.f)][0] ?? null);
    bringSource();
  };
  pick("functions").addEventListener("click", onRow);
  document.addEventListener("keydown", (event) => {
    if (event.key === "Enter") { onPath(event); onRow(event); }
    if (event.key === "Escape") choose(null, path);
  });

  // Sorting by a column's values, which are in data-v.
  const heads = [...pick("functions").tHead.rows[0].cells];
  heads.forEach((head, column) => head.addEventListener("click", () => {
    const body = pick("functions").tBodies[0];
    const down = head.getAttribute("aria-sort") !== "descending" && head.dataset.kind === "n"
      || head.getAttribute("aria-sort") === "ascending";
    heads.forEach((other) => other.removeAttribute("aria-sort"));
    head.setAttribute("aria-sort", down ? "descending" : "ascending");
    const value = (row) => head.dataset.kind === "n" ? Number(row.cells[column].dataset.v) : row.cells[column].textContent;
    const order = (a, b) => a < b ? -1 : a > b ? 1 : 0;
    const rows = [...body.rows].sort((a, b) => (down ? -1 : 1) * order(value(a), value(b)));
    body.append(...rows);
  }));

  const find = pick("find");
  find.hidden = false;
  find.addEventListener("input", () => {
    const wanted = find.value.toLowerCase();
    for (const row of pick("functions").tBodies[0].rows)
      row.hidden = !(row.cells[1].textContent + row.cells[1].title).toLowerCase().includes(wanted);
  });
  for (const row of pick("functions").tBodies[0].rows) row.tabIndex = 0;
  addEventListener("hashchange", read);
  read();
})();
