// The page of an annotator. Texts only ever become text: nothing here makes markup of what a file says.
// Order of things: load the tasks, show the first without an answer, save each answer before the next is shown.

import { judgements } from "./judgements.js";

const $ = (id) => document.getElementById(id);
const token = location.hash.slice(1);
const RETRY = 2000;
let campaign = null;   // kind, reference, tasks, answers by task
let at = 0;            // which task is shown
let form = null;       // the judgement on the page: answer(), key(event), show(answer)
let saving = false;
let clock = { since: 0, spent: 0 };

function headers() {
  const key = sessionStorage.getItem("key");
  return { Authorization: `Bearer ${token}`, ...(key ? { "X-Key": key } : {}) };
}

async function call(path, options = {}) {
  const response = await fetch(path, { cache: "no-store", ...options, headers: { ...headers(), ...options.headers } });
  const record = await response.json().catch(() => ({}));
  if (!response.ok) throw Object.assign(new Error(record.error || `The server says ${response.status}.`), { status: response.status });
  return record;
}

function tell(text) { $("status").textContent = text; }

function trouble(text) {
  $("trouble").textContent = text;
  $("trouble").hidden = !text;
}

function only(name) { for (const each of ["gate", "done", "task"]) $(each).hidden = each !== name; }

function put(element, text) {
  element.textContent = text.trim() ? text : "(empty)";
  element.classList.toggle("empty", !text.trim());
}

function progress() {
  const total = campaign.tasks.length, answered = Object.keys(campaign.answers).length;
  $("place").textContent = at < total ? `${at + 1} of ${total}` : `${answered} of ${total} answered`;
  $("progress").max = total;
  $("progress").value = answered;
}

function show(place) {
  at = place;
  progress();
  trouble("");
  tell("");
  if (at >= campaign.tasks.length) {
    only("done");
    $("review").hidden = !campaign.tasks.length;
    $("thanks").focus();
    return;
  }
  const task = campaign.tasks[at];
  only("task");
  $("reference-section").hidden = task.reference === null;
  put($("source"), task.source);
  if (task.reference !== null) put($("reference"), task.reference);
  form = judgements[campaign.kind](task.outputs, put);
  $("question").textContent = form.question;
  $("keys").textContent = form.keys;
  $("judgement").replaceChildren(...form.parts);
  const before = campaign.answers[task.id];
  if (before) form.show(before);
  if (before) tell("You have answered this; saving again changes the answer.");
  $("undo").disabled = at === 0;
  clock = { since: document.hidden ? 0 : performance.now(), spent: 0 };
  scrollTo(0, 0);
  $("question").focus({ preventScroll: true });
}

// Only the time counts during which the page is seen.
document.addEventListener("visibilitychange", () => {
  if (document.hidden && clock.since) clock = { since: 0, spent: clock.spent + performance.now() - clock.since };
  else if (!document.hidden && !clock.since) clock.since = performance.now();
});

function seconds() {
  const now = clock.since ? performance.now() - clock.since : 0;
  return Math.min(86400, Math.round(clock.spent + now) / 1000);
}

function name() {
  return [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}

async function save() {
  if (saving || $("task").hidden) return;
  const answer = form.answer();
  if (answer === null) { tell(form.missing); form.lead(); return; }
  const task = campaign.tasks[at];
  if (JSON.stringify(answer) === JSON.stringify(campaign.answers[task.id])) { show(at + 1); return; }
  const body = JSON.stringify({ id: name(), task: task.id, answer, seconds: seconds() });
  saving = true;
  $("save").disabled = true;
  tell("Saving …");
  try {
    // The same id every time: an answer that arrived although we never heard of it is not counted twice.
    await untilSaved(body);
    campaign.answers[task.id] = answer;
    show(at + 1);
  } catch (error) {
    tell("");
    trouble(`Not saved: ${error.message}`);
  } finally {
    saving = false;
    $("save").disabled = false;
  }
}

async function untilSaved(body) {
  for (;;) {
    try {
      await call("api/answers", { method: "POST", body, headers: { "Content-Type": "application/json" } });
      trouble("");
      return;
    } catch (error) {
      if (error.status && error.status < 500) throw error;
      trouble(`Not saved yet: ${error.status ? error.message : "the server does not answer"}. Trying again; leave this page open.`);
      await new Promise((resolve) => setTimeout(resolve, RETRY));
    }
  }
}

function back() {
  if (saving || !campaign || at === 0) return;
  show(at - 1);
}

addEventListener("keydown", (event) => {
  if ($("task").hidden || event.ctrlKey || event.altKey || event.metaKey) return;
  const button = event.target.closest?.("button");
  if (event.key === "Enter" && !button) { event.preventDefault(); if (!event.repeat) save(); return; }
  if (event.key.toLowerCase() === "u" || event.key === "Backspace") { event.preventDefault(); back(); return; }
  if (!saving && form.key(event)) { event.preventDefault(); tell(""); }
});
addEventListener("beforeunload", (event) => { if (saving) event.preventDefault(); });
$("task").addEventListener("submit", (event) => { event.preventDefault(); save(); });
$("undo").addEventListener("click", back);
$("review").addEventListener("click", back);
$("gate").addEventListener("submit", (event) => {
  event.preventDefault();
  sessionStorage.setItem("key", $("key").value);
  start();
});

async function start() {
  try {
    campaign = await call("api/campaign");
    trouble("");
    $("header").hidden = false;
    const open = campaign.tasks.findIndex((task) => !(task.id in campaign.answers));
    show(open < 0 ? campaign.tasks.length : open);
  } catch (error) {
    $("header").hidden = true;
    if (error.status === 403) {
      const tried = sessionStorage.getItem("key");
      only("gate");
      trouble(tried ? "That was not the key." : "");
      $("key").focus();
      return;
    }
    trouble(error.status ? error.message : "The server does not answer. Is it running? Reload this page to try again.");
  }
}

addEventListener("hashchange", () => location.reload());
start();
