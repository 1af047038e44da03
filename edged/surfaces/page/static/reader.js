// The rows of a run, read on from where they were read to: by pages, each so many-th where they are many.

import { plural } from "./format.js";
import { figuresOf } from "./figures.js";
import { columnsOf, columnsOfTrace, isOfTraces } from "./plot.js";

const MOST_POINTS = 4000;
const MOST_CELLS = 40000;
const TRACE_POINTS = 2000;
const MOST_PAGES = 10;
const PAGE_ROWS = 2000;
const LIVE = ["running", "holding", "stopping", "paused"];

// known: what was given before for this run, or nothing. Gives {run, next, every, isWhole}: the rows
// from the first on, each `every`-th; isWhole: there is nothing more to read.
export async function readOn(call, id, known) {
  let { run, next, every } = known ?? { run: null, next: 0, every: 0 };
  let isRead = false;
  if (!every) {
    const first = await call("bench__runs", { run_id: id, from_row: 0, rows: 1 });
    every = Math.max(1, Math.ceil(first.total_rows / mostOf(first)));
  }
  for (let page = 0; page < MOST_PAGES && !isRead; page++) {
    const told = await call("bench__runs", { run_id: id, from_row: next, rows: PAGE_ROWS, every });
    run = { ...told, rows: run ? [...run.rows, ...told.rows] : told.rows };
    next += told.rows.length * every;
    isRead = told.next_row === null || told.rows.length === 0;
    if (run.rows.length > 2 * mostOf(run)) {
      run.rows = run.rows.filter((_, index) => index % 2 === 0);
      every *= 2;
      next = run.rows.length * every;
    }
  }
  return { run, next, every, isWhole: isRead && !LIVE.includes(run.state) };
}

// What of a run is drawn, for Figures.take: its columns, the pictures that an experiment wants, or the
// newest trace of a stream of traces. A trace that the engine does not hold any more is a picture that
// the engine draws.
// before: what was given before for this run, or nothing; view: of an experiment, what view.json has.
export async function drawnOf(call, id, { run, isWhole, every }, before, view) {
  const about = { title: id, live: !isWhole, every };
  if (run.kind === "experiment") return figuresOf(run, view ?? { dimensions: [], plots: [], logs: {} }, about);
  return isOfTraces(run) ? [await traceOf(call, id, run, isWhole, about, before?.[0])].filter(Boolean) : [{ ...columnsOf(run, every), about }];
}

async function traceOf(call, id, run, isWhole, about, before) {
  const at = run.rows.at(-1)?.[run.columns.indexOf("point_index")];
  if (at === undefined) return null;
  if (before?.at === at) return { ...before, about: { ...before.about, live: !isWhole } };
  try {
    const told = await call("fetch_waveform", { stream_id: id, point_index: at, format: "decimated", points: TRACE_POINTS });
    return { ...columnsOfTrace(told), at, about: { ...about, every: 1, title: `${id}, trace ${at + 1} (${plural(told.y_length, "sample")})` } };
  } catch (error) {
    if (error.away) throw error;
    return { at, about, picture: await call("bench__plot", { run_id: id }) };
  }
}

// A map has a place for each row.
function mostOf(run) {
  return run.kind === "experiment" ? MOST_CELLS : MOST_POINTS;
}
