"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const [FILE, LINE, BLOCK, DECISION, AGE] = [0, 1, 2, 3, 4];
  const STATES = ["impossible", "possible", "executed"];
  const nav = document.getElementById("frames");
  const source = document.getElementById("source");
  const where = document.getElementById("where");
  document.documentElement.classList.add("script");
  document.querySelector("main").hidden = false;
  const head = document.querySelector("header");
  const measure = () =>
    document.documentElement.style.setProperty("--head", head.offsetHeight + "px");
  measure();
  addEventListener("resize", measure);

  const element = (name, kind, text) => {
    const made = document.createElement(name);
    if (kind) made.className = kind;
    if (text !== undefined) made.textContent = text;
    return made;
  };

  // Frames that can be looked at, in order, newest first, thread by thread.
  const frames = [];
  for (const [number, thread] of data.threads.entries()) {
    nav.append(element("h2", "", "Thread " + thread.id + (thread.crashed ? ", which crashed" : "")));
    for (const frame of thread.frames) {
      const button = element("button", frame.steps.length ? "" : "other");
      button.append("#" + frame.number + " " + frame.name);
      const notes = [frame.place];
      if (frame.inlined) notes.push("inlined");
      if (!frame.sure) notes.push("a guess");
      button.append(element("small", "", notes.join(" · ")));
      nav.append(button);
      if (!frame.steps.length) continue;
      const place = frames.length;
      frames.push({ ...frame, button, thread: number });
      button.addEventListener("click", () => choose(place, frames[place].steps.length - 1));
    }
  }

  let shown = -1;
  let rows = new Map();
  const show = (number) => {
    if (number === shown) return;
    shown = number;
    rows = new Map();
    const file = data.files[number];
    const states = new Map();
    file.states.forEach((lines, state) => lines.forEach((line) => states.set(line, STATES[state])));
    const all = document.createDocumentFragment();
    if (!file.parts.length) all.append(element("div", "none", "The source " + file.name + " was not found."));
    file.parts.forEach(([first, lines], part) => {
      if (part > 0 || first > 1) all.append(element("div", "row skip", "…"));
      lines.forEach((text, offset) => {
        const line = first + offset;
        const row = element("div", "row " + (states.get(line) || ""));
        row.dataset.line = line;
        row.append(element("span", "no", line), element("span", "text", text));
        rows.set(line, row);
        all.append(row);
      });
    });
    source.replaceChildren(all);
  };

  let frame = 0;
  let step = 0;
  const choose = (newFrame, newStep) => {
    frame = newFrame;
    step = newStep;
    const chosen = frames[frame];
    const at = chosen.steps[step];
    for (const other of frames) other.button.removeAttribute("aria-current");
    chosen.button.setAttribute("aria-current", "true");
    chosen.button.scrollIntoView({ block: "nearest" });
    show(at[FILE]);
    for (const row of source.querySelectorAll(".here")) row.classList.remove("here");
    const row = rows.get(at[LINE]);
    if (row) {
      row.classList.add("here");
      row.scrollIntoView({ block: "center" });
    }
    where.replaceChildren(
      element("b", "", data.files[at[FILE]].short + ":" + at[LINE]),
      " in " + chosen.name + ", line " + (step + 1) + " of " + chosen.steps.length + " known",
    );
    if (at[DECISION] !== null) {
      where.append(", ", element("b", at[DECISION] ? "T" : "F", at[DECISION] ? "the condition held" : "the condition did not hold"));
    }
    if (at[AGE] > 0) where.append(", " + at[AGE] + (at[AGE] === 1 ? " path" : " paths") + " ago");
    if (chosen.known !== "exact") where.append(" (inferred)");
    if (step === 0 && chosen.recorded && chosen.truncated) where.append(" · nothing is left of what was before");
    document.body.dataset.at = chosen.number + ":" + data.files[at[FILE]].short + ":" + at[LINE];
  };

  // Before the first line of a function comes the call of it; behind a call that
  // is under way the function it called.
  const back = () => {
    if (step > 0) return choose(frame, step - 1);
    const outer = frames[frame + 1];
    const complete = frames[frame].recorded ? !frames[frame].truncated : true;
    if (complete && outer && outer.thread === frames[frame].thread) choose(frame + 1, outer.steps.length - 1);
  };
  const forth = () => {
    if (step + 1 < frames[frame].steps.length) return choose(frame, step + 1);
    const inner = frames[frame - 1];
    if (inner && inner.thread === frames[frame].thread) choose(frame - 1, 0);
  };
  const jump = (by) => {
    const next = frames[frame + by];
    if (next) choose(frame + by, next.steps.length - 1);
  };
  const KEYS = {
    ArrowLeft: back, k: back, ArrowRight: forth, j: forth,
    ArrowDown: () => jump(1), ArrowUp: () => jump(-1),
    Home: () => choose(frame, 0), End: () => choose(frame, frames[frame].steps.length - 1),
  };
  document.getElementById("back").addEventListener("click", back);
  document.getElementById("forth").addEventListener("click", forth);
  addEventListener("keydown", (event) => {
    const act = KEYS[event.key];
    if (!act || event.ctrlKey || event.altKey || event.metaKey || !frames.length) return;
    event.preventDefault();
    act();
  });
  if (!frames.length) {
    where.textContent = "No frame has lines.";
    return;
  }
  // Where the program's own code died, if something of it is known.
  const first = frames.findIndex((it) => it.recorded);
  choose(Math.max(first, 0), frames[Math.max(first, 0)].steps.length - 1);
})();
