// The rows of a run, read on from where they were read to: by pages, each so many-th where they are many.

const MOST_POINTS = 4000;
const MOST_PAGES = 10;
const PAGE_ROWS = 2000;
const LIVE = ["running", "holding", "stopping"];

// known: what was given before for this run, or nothing. Gives {run, next, every, isWhole}: the rows
// from the first on, each `every`-th; isWhole: there is nothing more to read.
export async function readOn(call, id, known) {
  let { run, next, every } = known ?? { run: null, next: 0, every: 0 };
  let isRead = false;
  if (!every) every = everyOf((await call("bench__runs", { run_id: id, from_row: 0, rows: 1 })).total_rows);
  for (let page = 0; page < MOST_PAGES && !isRead; page++) {
    const told = await call("bench__runs", { run_id: id, from_row: next, rows: PAGE_ROWS, every });
    run = { ...told, rows: run ? [...run.rows, ...told.rows] : told.rows };
    next += told.rows.length * every;
    isRead = told.next_row === null || told.rows.length === 0;
    if (run.rows.length > 2 * MOST_POINTS) {
      run.rows = run.rows.filter((_, index) => index % 2 === 0);
      every *= 2;
      next = run.rows.length * every;
    }
  }
  return { run, next, every, isWhole: isRead && !LIVE.includes(run.state) };
}

function everyOf(total) {
  return Math.max(1, Math.ceil(total / MOST_POINTS));
}
