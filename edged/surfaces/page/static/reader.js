// The rows of a run, read on from where they were read to: by pages, and thinned where they are many.

const MOST_POINTS = 4000;
const MOST_PAGES = 50;
const PAGE_ROWS = 2000;
const LIVE = ["running", "holding"];

// known: what was given before for this run, or nothing. Gives {run, next, isWhole}.
export async function readOn(call, id, known) {
  let { run, next } = known ?? { run: null, next: 0 };
  for (let page = 0; page < MOST_PAGES; page++) {
    const told = await call("bench__runs", { run_id: id, from_row: next, rows: PAGE_ROWS });
    run = { ...told, rows: thinned(run ? [...run.rows, ...told.rows] : told.rows) };
    next += told.rows.length;
    if (told.next_row === null || told.rows.length === 0) break;
  }
  return { run, next, isWhole: !LIVE.includes(run.state) };
}

function thinned(rows) {
  if (rows.length <= 2 * MOST_POINTS) return rows;
  return rows.filter((_, index) => index % 2 === 0 || index > rows.length - 100);
}
