// Numbers, ages and times for people. Pure.

const PREFIX = { "-15": "f", "-12": "p", "-9": "n", "-6": "µ", "-3": "m", 0: "", 3: "k", 6: "M", 9: "G", 12: "T" };
const SCALED = new Set(["V", "A", "W", "Hz", "s", "Ohm", "ohm", "Ω", "F", "H", "VA", "Vpp", "Vrms", "V/s", "A/s", "Sa/s"]);

// What is shown of a value: [number, unit], both texts.
function valueOf(value, unit, written) {
  if (value === null || value === undefined) return ["–", unit];
  if (typeof value === "boolean") return [value ? "on" : "off", unit];
  if (typeof value !== "number" || !Number.isFinite(value)) return [String(value), unit];
  const size = Math.abs(value);
  if (SCALED.has(unit) && size >= 1e-15 && size < 1e15 && (size < 0.1 || size >= 1e4)) {
    const power = Math.min(12, Math.floor(Math.log10(size) / 3) * 3);
    return [written(value / 10 ** power), PREFIX[power] + unit];
  }
  return [written(value), unit];
}

// A reading keeps its digits, so that it does not hop while it changes; a count has none to keep.
export function measured(value, unit = "") {
  const isCount = (number) => !SCALED.has(unit) && Number.isInteger(number) && Math.abs(number) < 1e7;
  return valueOf(value, unit, (number) => (isCount(number) ? String(number) : plain(number, (one) => one.toPrecision(5))));
}

// What was on a line, with what cannot be seen written out.
export function seen(line) {
  return line.replaceAll("\r", "\\r").replaceAll("\n", "\\n").replace(/[\x00-\x1f\x7f-\x9f]/g, (char) => `\\x${char.charCodeAt(0).toString(16).padStart(2, "0")}`);
}

export function text(value, unit = "", digits = 5) {
  return valueOf(value, unit, (number) => plain(number, (one) => String(Number(one.toPrecision(digits))))).filter(Boolean).join(" ");
}

function plain(value, written) {
  const size = Math.abs(value);
  if (value === 0) return "0";
  return size < 1e-4 || size >= 1e7 ? value.toExponential(3) : written(value);
}

// Ticks of an axis: where plain numbers would be long, they have the unit's prefix.
export function ticksOf(values, unit) {
  const most = Math.max(...values.map((v) => Math.abs(v ?? 0)));
  const shown = most < 0.01 || most >= 1e4 ? unit : "";
  return values.map((v) => (v === null ? "" : text(v, shown, 4)));
}

export function labelled({ name, unit }) {
  return unit ? `${name} [${unit}]` : name;
}

// "3 s", "2 min", "5 h", "3 d"
export function age(ms) {
  const s = Math.max(0, Math.round(ms / 1000));
  if (s < 100) return `${s} s`;
  if (s < 5400) return `${Math.round(s / 60)} min`;
  if (s < 129600) return `${Math.round(s / 3600)} h`;
  return `${Math.round(s / 86400)} d`;
}

const pad = (number) => String(number).padStart(2, "0");

export function clock(ms) {
  const at = new Date(ms);
  return `${pad(at.getHours())}:${pad(at.getMinutes())}:${pad(at.getSeconds())}`;
}

export function fine(ms) {
  return `${clock(ms)}.${String(Math.floor(ms % 1000)).padStart(3, "0")}`;
}

export function day(ms) {
  const at = new Date(ms);
  return `${at.getFullYear()}-${pad(at.getMonth() + 1)}-${pad(at.getDate())}`;
}

export function date(ms) {
  return `${day(ms)} ${clock(ms)}`;
}

// psu2 before psu10.
export const byName = new Intl.Collator("en", { numeric: true }).compare;

export function plural(count, one, many = `${one}s`) {
  return `${count} ${count === 1 ? one : many}`;
}

// What a tool has given; a picture that came with it is its `picture`, an address for an img, and what
// was said of it is `said`.
export function withPicture(data, content) {
  const of = (type) => content?.find((part) => part.type === type);
  const image = of("image");
  return image ? { ...data, picture: `data:${image.mimeType};base64,${image.data}`, said: of("text")?.text ?? "" } : data;
}
