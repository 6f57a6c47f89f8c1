"""The looks of drawings and pages: colours, type and spacing, light and dark.

Colours are variables that the reader's system switches. Pages hold one style block and at most one script, both fixed
texts, so that a content security policy can permit exactly these by their hashes.
"""

from typing import Final

COLOURS: Final = """\
:root{color-scheme:light dark;--paper:#faf8f3;--card:#fff;--ink:#1f2430;--soft:#5d6470;--line:#e3dfd3;--wash:#f2efe6;
--one:#0b6b66;--two:#b4500f;--three:#5b45b0;--four:#8a2a5b;--good:#dff0ea;--bad:#fbe3d6}
@media (prefers-color-scheme:dark){:root{--paper:#14171b;--card:#1b1f25;--ink:#e9e7e1;--soft:#a3abb6;--line:#313740;
--wash:#232830;--one:#56c8ba;--two:#f2a067;--three:#b6a2f2;--four:#ec92bd;--good:#17403a;--bad:#52301c}}
"""

DRAWING: Final = """\
.rg-drawing{font-family:system-ui,-apple-system,"Segoe UI",Roboto,"Noto Sans",sans-serif}
.rg-drawing text{fill:var(--ink);font-size:14px}
.rg-drawing .rg-title{font-weight:600;font-size:15px}
.rg-drawing .rg-soft{fill:var(--soft);font-size:13px}
.rg-grid{stroke:var(--line);stroke-width:1}
.rg-axis{stroke:var(--soft);stroke-width:1}
.rg-best{stroke:var(--soft);stroke-width:1.5;stroke-dasharray:3 4}
.rg-line{fill:none;stroke-width:2.25;stroke-linejoin:round;stroke-linecap:round}
.rg-dot{stroke:var(--card);stroke-width:1.5}
.rg-hover{fill:transparent}.rg-hover:hover{fill:var(--soft);fill-opacity:.35}
.rg-s0{stroke:var(--one)}.rg-s1{stroke:var(--two)}.rg-s2{stroke:var(--three)}.rg-s3{stroke:var(--four)}
.rg-f0{fill:var(--one)}.rg-f1{fill:var(--two)}.rg-f2{fill:var(--three)}.rg-f3{fill:var(--four)}
.rg-ground{fill:var(--wash)}
.rg-cell{fill:var(--one)}
.rg-cell:hover{stroke:var(--ink);stroke-width:1.5}
.rg-gold{fill:none;stroke:var(--two);stroke-width:2;pointer-events:none}
.rg-word{transition:opacity .12s}.rg-map.rg-looking .rg-cell:not(.rg-on){opacity:.25}
.rg-map .rg-word.rg-on{font-weight:700}.rg-map .rg-word[tabindex]{cursor:default}
"""

PAGE: Final = """\
*{box-sizing:border-box}
body{margin:0;background:var(--paper);color:var(--ink);line-height:1.55;
font-family:system-ui,-apple-system,"Segoe UI",Roboto,"Noto Sans",sans-serif;font-size:16px}
main,header,footer{max-width:1120px;margin:0 auto;padding:0 24px}
header{padding-top:56px}
h1,h2{font-family:"Iowan Old Style","Palatino Linotype",Palatino,Georgia,"Noto Serif",serif;font-weight:600;
line-height:1.2;letter-spacing:-.01em;overflow-wrap:anywhere}
h1{font-size:2.5rem;margin:0 0 6px}
.sentence h1{font-size:1.5rem;margin-bottom:16px}
h2{font-size:1.55rem;margin:56px 0 16px}
h3{font-size:1rem;margin:24px 0 8px}
p{margin:0 0 12px}
.run{color:var(--soft);font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;font-size:.9rem;
overflow-wrap:anywhere}
nav{margin:20px 0 0;display:flex;flex-wrap:wrap;gap:4px 20px;font-size:.95rem}
a{color:var(--one)}
.card{background:var(--card);border:1px solid var(--line);border-radius:12px;padding:20px}
.tiles{display:grid;grid-template-columns:repeat(auto-fit,minmax(155px,1fr));gap:16px;margin:28px 0 0}
.tile .name{color:var(--soft);font-size:.9rem;overflow-wrap:anywhere}
.tile .value{font-size:2.4rem;font-weight:650;line-height:1.15;font-variant-numeric:tabular-nums;
letter-spacing:-.02em;color:var(--one)}
.tile .interval{color:var(--soft);font-size:.85rem;font-variant-numeric:tabular-nums}
.status{margin:28px 0 0}.status p{margin:0}.status .what{font-size:1.25rem;font-weight:650;color:var(--one)}
.status.interrupted .what,.status .silence{color:var(--two)}
.status .notes,.status .silence{font-size:.9rem;font-variant-numeric:tabular-nums;overflow-wrap:anywhere}
.status .notes{color:var(--soft)}
.done{display:block;width:100%;height:8px;border-radius:4px;margin:12px 0 10px}
.done .track{fill:var(--wash)}.done .full{fill:var(--one)}.interrupted .full{fill:var(--two)}
.cautions{list-style:none;margin:16px 0 0;padding:0;display:grid;gap:10px}
.cautions li{background:var(--bad);border-radius:12px;padding:12px 20px;overflow-wrap:anywhere}
.cautions b{font-variant-numeric:tabular-nums}
.early table{table-layout:fixed}.early th.step,.early td.step{width:6em;color:var(--soft);
font-weight:400;padding-right:16px}.early td{white-space:pre-wrap;overflow-wrap:anywhere;vertical-align:top}
.early figure{margin:0}.early figcaption b{color:var(--ink)}.early{display:grid;gap:14px}
.facts{display:grid;grid-template-columns:repeat(auto-fit,minmax(220px,1fr));gap:14px 28px;margin:0}
.facts dt{color:var(--soft);font-size:.85rem}
.facts dd{margin:0;overflow-wrap:anywhere}
.scroll{overflow-x:auto}
table{border-collapse:collapse;width:100%;font-variant-numeric:tabular-nums}
caption{text-align:left;color:var(--soft);font-size:.9rem;padding-bottom:10px}
th,td{text-align:left;padding:9px 16px 9px 0;border-top:1px solid var(--line);vertical-align:middle}
thead th{border-top:0;color:var(--soft);font-weight:500;font-size:.85rem;padding-top:0}
td.number,th.number{text-align:right;white-space:nowrap}
tbody th{font-weight:500}
tr.set th{font-weight:650;color:var(--one);padding-top:18px}
td.value{font-weight:650}
td.bars{padding-left:10px}
code,pre{font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;font-size:.85em}
td code{color:var(--soft);overflow-wrap:anywhere}
.bar{display:block;width:130px;height:18px}
.bar .track{stroke:var(--line);stroke-width:4;stroke-linecap:round}
.bar .span{stroke:var(--one);stroke-width:4;stroke-opacity:.45}
.bar .point{fill:var(--one)}
.charts{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(400px,100%),1fr));gap:16px}
.charts figure,figure.map{margin:0}
.charts svg{display:block;width:100%;height:auto}
.samples{display:grid;gap:14px;margin:0;padding:0;list-style:none}
.samples dl{display:grid;grid-template-columns:6.5em 1fr;gap:4px 12px;margin:0}
.samples dt{color:var(--soft);font-size:.85rem;padding-top:.15em}
.samples dd{margin:0;overflow-wrap:anywhere;white-space:pre-wrap}
.samples .output{font-weight:600}
.tag{display:inline-block;border-radius:999px;padding:0 10px;font-size:.8rem;background:var(--wash);color:var(--soft);
margin-top:10px;font-variant-numeric:tabular-nums}
.tag.right{background:var(--good);color:var(--ink)}
mark{background:var(--bad);color:inherit;border-radius:4px;padding:0 3px}
.same{background:none}
.maps{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(440px,100%),1fr));gap:16px;align-items:start}
.maps svg{display:block;max-width:100%;height:auto}
figcaption{color:var(--soft);font-size:.9rem;margin-bottom:10px;overflow-wrap:anywhere}
.empty{color:var(--soft);font-style:italic;margin:0}
.findings{margin:12px 0 0;padding-left:20px}
.findings li{overflow-wrap:anywhere}
details summary{cursor:pointer;font-weight:600}
pre{overflow-x:auto;background:var(--wash);border-radius:8px;padding:16px;margin:14px 0 0;tab-size:2;line-height:1.45}
footer{color:var(--soft);font-size:.85rem;padding-top:48px;padding-bottom:56px}
@media (max-width:560px){.maps svg{max-width:none}
main,header,footer{padding-left:16px;padding-right:16px}header{padding-top:28px}
h1{font-size:1.9rem}h2{margin-top:40px}.card{padding:14px}.samples dl{grid-template-columns:1fr;gap:0}
.samples dd{margin-bottom:6px}.tile .value{font-size:2rem}
table.stack thead{position:absolute;width:1px;height:1px;overflow:hidden;clip-path:inset(50%)}
table.stack tr{display:grid;grid-template-columns:1fr auto auto;gap:2px 14px;border-top:1px solid var(--line);
padding:10px 0}table.stack tbody,table.stack caption{display:block}table.stack{display:block}
table.stack th,table.stack td{border:0;padding:0}table.stack tr.set{border-top:0;padding:16px 0 4px}
table.stack td.wide,tr.set th{grid-column:1/-1}table.stack td.bars{display:none}}
@media print{body{background:#fff}nav{display:none}.card{break-inside:avoid}}
"""

SILENCE_SCRIPT: Final = """\
const card = document.querySelector(".status"), told = card.querySelector(".silence");
const look = () => {
  const minutes = Math.floor((Date.now() / 1000 - card.dataset.written) / 60);
  if (minutes * 60 < Math.max(300, 5 * card.dataset.again)) return;
  told.textContent = `Nothing was written for ${minutes} minutes: a validation takes long, or training was broken off; `
    + "the same command goes on from the last checkpoint.";
  told.hidden = false;
};
look();
setInterval(look, 10000);
"""
"""Says so when the page of a training that should be running has not been written for a long time."""

HOVER_SCRIPT: Final = """\
for (const map of document.querySelectorAll("svg.rg-map")) {
  const words = map.querySelectorAll(".rg-word"), cells = map.querySelectorAll(".rg-cell");
  const look = (event) => {
    const {row, column} = event.target.dataset, word = event.target.matches(".rg-word");
    const meets = (item) => row !== undefined && item.dataset.row === row
      || column !== undefined && item.dataset.column === column;
    leave();
    if (row === undefined && column === undefined) return;
    map.classList.add("rg-looking");
    for (const item of [...words, ...cells]) item.classList.toggle("rg-on", meets(item));
    if (!word) return;
    const strength = new Map();
    for (const cell of cells) if (meets(cell))
      strength.set(row === undefined ? "r" + cell.dataset.row : "c" + cell.dataset.column, +cell.dataset.weight);
    for (const other of words) {
      const place = other.dataset.row === undefined ? "c" + other.dataset.column : "r" + other.dataset.row;
      const found = strength.get(place);
      if (found !== undefined) other.style.opacity = 0.25 + 0.75 * Math.min(1, found);
    }
  };
  const leave = () => {
    map.classList.remove("rg-looking");
    for (const item of [...words, ...cells]) { item.classList.remove("rg-on"); item.style.opacity = ""; }
  };
  map.addEventListener("pointerover", look);
  map.addEventListener("focusin", look);
  map.addEventListener("pointerleave", leave);
  map.addEventListener("focusout", leave);
}
"""
"""Fades all but the row and the column under the pointer; a word shows how strongly each word of the other side is
linked."""
