// The fleet's page. The token lives in this module's memory alone: it is in no storage and no
// address, and whatever edges say is only ever text.

const EVERY_MS = 10_000;
const form = document.getElementById("ask");
const field = document.getElementById("token");
const said = document.getElementById("said");
const table = document.getElementById("edges");
let token = "";
let timer = 0;

function cell(row, text, name = "") {
  const made = document.createElement("td");
  made.textContent = text;
  if (name) made.className = name;
  row.append(made);
  return made;
}

function since(ms) {
  const seconds = Math.max(0, Math.round((Date.now() - ms) / 1000));
  return seconds < 120 ? `${seconds} s ago` : `${Math.round(seconds / 60)} min ago`;
}

function who(unit) {
  if (unit.lease) return `reserved by ${unit.lease.who}`;
  if (unit.is_in_use) return "a run";
  return unit.used_by ?? "";
}

function bench(row, edge) {
  const first = cell(row, edge.page ? "" : edge.edge_id);
  if (edge.page && /^https?:\/\//.test(edge.page)) {
    const link = document.createElement("a");
    link.href = edge.page;
    link.rel = "noreferrer";
    link.textContent = edge.edge_id;
    first.append(link);
  }
  cell(row, `${edge.state}, ${since(edge.last_ms)}`, edge.state);
}

function show(edges) {
  const rows = [];
  for (const edge of edges) {
    const units = edge.units.length ? edge.units : [null];
    for (const [index, unit] of units.entries()) {
      const row = document.createElement("tr");
      if (index === 0) bench(row, edge);
      else { cell(row, ""); cell(row, ""); }
      cell(row, unit ? unit.alias || unit.id : "no units");
      cell(row, unit ? `${unit.manufacturer} ${unit.model}` : "");
      cell(row, unit ? unit.state : "");
      cell(row, unit ? who(unit) : "");
      rows.push(row);
    }
  }
  table.tBodies[0].replaceChildren(...rows);
  table.hidden = false;
  const here = edges.filter((edge) => edge.state === "here").length;
  said.textContent = `${here} of ${edges.length} benches are here.`;
}

async function fetchEdges() {
  clearTimeout(timer);
  try {
    const answer = await fetch("/fleet", {
      headers: { Accept: "application/json", Authorization: `Bearer ${token}` },
      cache: "no-store",
      credentials: "omit",
    });
    if (answer.status === 401 || answer.status === 403) {
      token = "";
      form.hidden = false;
      said.textContent = answer.status === 401
        ? "This token is not accepted, or has run out: give another one."
        : "This token does not allow fleet__list_edges.";
      return;
    }
    if (!answer.ok) throw new Error(`the relay answered ${answer.status}`);
    show((await answer.json()).edges);
    form.hidden = true;
  } catch (error) {
    said.textContent = `The fleet cannot be read now: ${error.message}. It is tried again.`;
  }
  timer = setTimeout(fetchEdges, EVERY_MS);
}

form.addEventListener("submit", (event) => {
  event.preventDefault();
  token = field.value.trim();
  field.value = "";
  if (token) fetchEdges();
});
