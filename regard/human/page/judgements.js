// What is asked for each kind: the parts of the page, the answer they hold, and the keys that change it.

function make(tag, properties = {}, ...children) {
  const element = Object.assign(document.createElement(tag), properties);
  element.append(...children);
  return element;
}

let groups = 0;

// A row of radio buttons: number keys choose, arrows move within it by themselves.
function row({ legend, hint, options, className, hidden }) {
  const group = `group-${++groups}`;
  const inputs = options.map(({ value }) => make("input", { type: "radio", name: group, value }));
  const title = make("legend", { className: hidden ? "hear" : "" }, legend);
  if (hint) title.append(make("span", { className: "soft", textContent: hint }));
  const labels = options.map(({ label, small }, place) => {
    const told = make("span", {}, make("b", { textContent: label }));
    if (small) told.append(make("small", { textContent: small }));
    return make("label", { className: "option" }, inputs[place], told);
  });
  const part = make("fieldset", {}, title, make("div", { className }, ...labels));
  const chosen = () => inputs.find((input) => input.checked)?.value ?? null;
  const choose = (value) => {
    const input = inputs.find((each) => each.value === String(value));
    if (!input) return false;
    input.checked = true;
    input.focus();
    return true;
  };
  const lead = () => (inputs.find((input) => input.checked) ?? inputs[0]).focus();
  return { part, chosen, choose, lead, has: (element) => inputs.includes(element) };
}

function output(text, put, title) {
  const says = make("p", { className: "says", dir: "auto" });
  put(says, text);
  return make("section", { className: "output" }, make("h2", { textContent: title }), says);
}

// Several rows: number keys answer the row that has the focus, or the first without an answer, and lead on to the next.
function rowKeys(rows) {
  return (event) => {
    let here = rows.findIndex((each) => each.has(document.activeElement));
    const step = { ArrowUp: -1, ArrowDown: 1 }[event.key];
    if (step) {
      here = here < 0 ? 0 : Math.min(rows.length - 1, Math.max(0, here + step));
      rows[here].lead();
      return true;
    }
    if (here < 0) here = Math.max(0, rows.findIndex((each) => each.chosen() === null));
    if (!/^[0-9]$/.test(event.key) || !rows[here].choose(event.key)) return false;
    const next = rows.findIndex((each, place) => place > here && each.chosen() === null);
    if (next >= 0) rows[next].lead();
    return true;
  };
}

const firstOpen = (rows) => (rows.find((each) => each.chosen() === null) ?? rows[0]).lead();

const WORDS = {
  adequacy: ["nothing", "little", "much", "most", "all"],
  fluency: ["not language", "broken", "non-native", "good", "flawless"],
};

function adequacyFluency(outputs, put) {
  const scale = (name, legend, hint) => row({
    legend, hint, className: "scale",
    options: WORDS[name].map((small, place) => ({ value: String(place + 1), label: String(place + 1), small })),
  });
  const adequacy = scale("adequacy", "Adequacy", "How much of the meaning does the output express? 1 nothing, 5 all");
  const fluency = scale("fluency", "Fluency", "How good is its language, whatever it means? 1 not language, 5 flawless");
  const rows = [adequacy, fluency];
  return {
    question: "How adequate and how fluent is this output?",
    keys: "Keys: 1 to 5 answer adequacy, then fluency; up and down change the row; Enter saves; U goes back.",
    missing: "Choose a number in both rows first.",
    parts: [output(outputs[0], put, "Output"), adequacy.part, fluency.part],
    answer: () => (rows.every((each) => each.chosen() !== null)
      ? { adequacy: Number(adequacy.chosen()), fluency: Number(fluency.chosen()) } : null),
    show: (answer) => { adequacy.choose(answer.adequacy); fluency.choose(answer.fluency); },
    key: rowKeys(rows),
    lead: () => firstOpen(rows),
  };
}

function direct(outputs, put) {
  let value = null, typed = "", typedAt = 0;
  const slider = make("input", { type: "range", id: "score", min: 0, max: 100, step: 1, value: 50 });
  const told = make("output", { htmlFor: "score", textContent: "–" });
  const ends = make("div", { className: "ends" }, make("span", { textContent: "0" }), make("span", { textContent: "100" }));
  ends.setAttribute("aria-hidden", "true");
  const slide = make("div", { className: "slide unset" }, make("div", {}, slider, ends), told);
  slider.setAttribute("aria-valuetext", "not set");
  const set = (wanted) => {
    value = Math.min(100, Math.max(0, wanted));
    slider.value = value;
    slider.setAttribute("aria-valuetext", `${value} of 100`);
    told.textContent = value;
    slider.style.setProperty("--share", `${value}%`);
    slide.classList.remove("unset");
  };
  slider.addEventListener("input", () => set(Number(slider.value)));
  slider.addEventListener("pointerup", () => set(Number(slider.value)));
  const label = make("label", { htmlFor: "score", textContent: "The output expresses the meaning, from 0 (not at all) to 100 (perfectly)" });
  const moves = { ArrowLeft: -1, ArrowDown: -1, ArrowRight: 1, ArrowUp: 1, PageDown: -10, PageUp: 10 };
  return {
    question: "How well does this output express the meaning?",
    keys: "Keys: type a number from 0 to 100, or move by arrows (1) and Page Up, Page Down (10); Enter saves; U goes back.",
    missing: "Set a score first: move the slider, or type a number.",
    parts: [output(outputs[0], put, "Output"), make("div", { className: "direct" }, label, slide)],
    answer: () => (value === null ? null : { score: value }),
    show: (answer) => set(answer.score),
    key: (event) => {
      if (/^[0-9]$/.test(event.key)) {
        const fresh = event.timeStamp - typedAt > 1500 || Number(typed + event.key) > 100;
        typed = fresh ? event.key : typed + event.key;
        typedAt = event.timeStamp;
        set(Number(typed));
      } else if (event.key in moves) set((value ?? 50) + moves[event.key]);
      else if (event.key === "Home") set(0);
      else if (event.key === "End") set(100);
      else return false;
      slider.focus();
      return true;
    },
    lead: () => slider.focus(),
  };
}

function pairwise(outputs, put) {
  const choice = row({
    legend: "Which output is better?", className: "choices", hidden: true,
    options: [
      { value: "first", label: "1", small: "First is better" },
      { value: "equal", label: "0", small: "Equally good" },
      { value: "second", label: "2", small: "Second is better" },
    ],
  });
  const keys = { 1: "first", 2: "second", 0: "equal", ArrowLeft: "first", ArrowRight: "second", ArrowDown: "equal", ArrowUp: "equal" };
  const pair = make("div", { className: "pair" }, output(outputs[0], put, "First output"), output(outputs[1], put, "Second output"));
  return {
    question: "Which output is better?",
    keys: "Keys: 1 or left for the first, 2 or right for the second, 0 or down for equally good; Enter saves; U goes back.",
    missing: "Choose one of the three first.",
    parts: [pair, choice.part],
    answer: () => (choice.chosen() === null ? null : { choice: choice.chosen() }),
    show: (answer) => choice.choose(answer.choice),
    key: (event) => event.key in keys && choice.choose(keys[event.key]),
    lead: choice.lead,
  };
}

function ranking(outputs, put) {
  const letters = "ABCDE";
  const rows = outputs.map((_, place) => row({
    legend: `Rank of output ${letters[place]}, 1 is best`, className: "ranks", hidden: true,
    options: outputs.map((__, rank) => ({ value: String(rank + 1), label: String(rank + 1) })),
  }));
  const parts = outputs.map((text, place) => {
    const says = make("p", { className: "says", dir: "auto" });
    put(says, text);
    const told = make("div", {}, make("h2", { textContent: `Output ${letters[place]}` }), says);
    return make("section", { className: "output ranked" }, told, rows[place].part);
  });
  return {
    question: "Rank the outputs: 1 is best, and equal ones may share a rank",
    keys: `Keys: 1 to ${outputs.length} rank an output and lead to the next; up and down change the output; Enter saves; U goes back.`,
    missing: "Give every output a rank first.",
    parts,
    answer: () => (rows.every((each) => each.chosen() !== null) ? { ranks: rows.map((each) => Number(each.chosen())) } : null),
    show: (answer) => answer.ranks.forEach((rank, place) => rows[place].choose(rank)),
    key: rowKeys(rows),
    lead: () => firstOpen(rows),
  };
}

export const judgements = { "adequacy-fluency": adequacyFluency, direct, pairwise, ranking };
