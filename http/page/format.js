// How numbers, times and bytes are written. Nothing here knows the API.

const NONE = '–';

/** A whole number with commas. The formats of the browser take 40 ms before the first number. */
export function number(value) {
  if (value == null) return NONE;
  // The text of an id that JavaScript would round stays as it is.
  const whole = typeof value === 'number' ? Math.round(value) : value;
  return String(whole).replace(/\B(?=(\d{3})+$)/g, ',');
}

/** A number in at most five characters: 950, 12.3k, 4.56M. */
export function short(value) {
  if (value == null) return NONE;
  for (const [unit, size] of [['G', 1e9], ['M', 1e6], ['k', 1e4]]) {
    if (value < size) continue;
    const scaled = value / (unit === 'k' ? 1e3 : size);
    return scaled.toFixed(scaled < 10 ? 2 : scaled < 100 ? 1 : 0) + unit;
  }
  return number(value);
}

export function plural(count, what) {
  return `${number(count)} ${what}${count === 1 ? '' : 's'}`;
}

/** Events a second. */
export function rate(value) {
  if (value == null) return NONE;
  if (value === 0) return '0';
  if (value < 0.05) return '<0.1';
  return value < 10 ? value.toFixed(1) : short(Math.round(value));
}

export function share(part, all) {
  if (!all) return NONE;
  const percent = (100 * part) / all;
  if (percent > 0 && percent < 0.1) return '<0.1 %';
  return `${percent.toFixed(percent > 0 && percent < 10 ? 1 : 0)} %`;
}

/** Seconds as text. */
export function duration(seconds) {
  if (seconds == null) return NONE;
  if (typeof seconds === 'string') return seconds;
  if (seconds < 0) return `-${duration(-seconds)}`;
  if (seconds === 0) return '0 s';
  if (seconds < 0.001) return `${Math.max(1, Math.round(seconds * 1e6))} µs`;
  if (seconds < 0.01) return `${(seconds * 1e3).toFixed(1)} ms`;
  if (seconds < 1) return `${Math.round(seconds * 1e3)} ms`;
  if (seconds < 10) return `${seconds.toFixed(1)} s`;
  const rounded = Math.round(seconds);
  if (rounded < 60) return `${rounded} s`;
  const parts = (large, size, small, rest) => `${Math.floor(rounded / size)} ${large}${rest > 0 ? ` ${rest} ${small}` : ''}`;
  if (rounded < 3600) return parts('min', 60, 's', rounded % 60);
  if (rounded < 86400) return parts('h', 3600, 'min', Math.floor((rounded % 3600) / 60));
  return parts('d', 86400, 'h', Math.floor((rounded % 86400) / 3600));
}

export function bytes(count) {
  if (count == null) return NONE;
  for (const [unit, size] of [['GiB', 2 ** 30], ['MiB', 2 ** 20], ['KiB', 2 ** 10]]) {
    if (count >= size) return `${(count / size).toFixed(count / size < 10 ? 1 : 0)} ${unit}`;
  }
  return `${count} B`;
}

const joined = (parts, mark) => parts.map((part) => String(part).padStart(2, '0')).join(mark);
const clock = (at) => joined([at.getHours(), at.getMinutes(), at.getSeconds()], ':');
const day = (at) => joined([at.getFullYear(), at.getMonth() + 1, at.getDate()], '-');

/** A moment in the time zone of the browser: the time, and the date unless it is today. */
export function moment(text) {
  const at = new Date(text);
  if (text == null || Number.isNaN(at.getTime())) return text ?? NONE;
  return day(at) === day(new Date()) ? clock(at) : `${day(at)} ${clock(at)}`;
}

export function secondsSince(text) {
  return (Date.now() - new Date(text).getTime()) / 1000;
}

/** What a text field means for the API: nothing, a number, or a text such as "10m". */
export function optionValue(text) {
  const trimmed = text.trim();
  if (trimmed === '') return null;
  if (trimmed === 'true' || trimmed === 'false') return trimmed === 'true';
  return /^-?\d+(\.\d+)?$/.test(trimmed) ? Number(trimmed) : trimmed;
}

export function fromBase64(text) {
  return Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
}

/** The bytes of a body or a result, which the API sends as text or in base64. */
export function bytesOf(object, name) {
  if (object[name] != null) return new TextEncoder().encode(object[name]);
  const encoded = object[`${name}_base64`];
  return encoded == null ? null : fromBase64(encoded);
}

export function hexDump(content) {
  const lines = [];
  for (let at = 0; at < content.length; at += 16) {
    const row = [...content.subarray(at, at + 16)];
    const hex = row.map((byte) => byte.toString(16).padStart(2, '0'));
    const left = hex.slice(0, 8).join(' ').padEnd(23);
    const right = hex.slice(8).join(' ').padEnd(23);
    const text = row.map((byte) => (byte > 31 && byte < 127 ? String.fromCharCode(byte) : '.')).join('');
    lines.push(`${at.toString(16).padStart(8, '0')}  ${left}  ${right}  ${text}`);
  }
  return lines.join('\n');
}

/** Deeper JSON is shown as it is: its indentation would grow with the square of its depth. */
const DEEPEST = 64;
const LONGEST = 1 << 20;

/**
 * JSON with line breaks and indentation; null if the text is no JSON object or list, or would be too deep or too long
 * with indentation. The text is not parsed and written anew: numbers keep all their digits, and keys that occur twice
 * are shown twice.
 */
export function prettyJson(text) {
  if (!/^\s*[[{]/.test(text)) return null;
  try {
    JSON.parse(text);
  } catch {
    return null;
  }
  const parts = [];
  let [depth, length, isOpened] = [0, 0, false];
  const add = (part) => {
    parts.push(part);
    length += part.length;
  };
  const line = () => add(`\n${'  '.repeat(depth)}`);
  for (const [token] of text.matchAll(/"(?:[^"\\]|\\.)*"|[[\]{},:]|[^\s[\]{},:"]+/g)) {
    const closes = token === '}' || token === ']';
    if (closes) depth -= 1;
    // Nothing is between the brackets of an empty object or list.
    if (closes !== isOpened) line();
    isOpened = token === '{' || token === '[';
    if (isOpened) depth += 1;
    add(token === ':' ? ': ' : token);
    if (token === ',') line();
    if (depth > DEEPEST || length > LONGEST) return null;
  }
  return parts.join('');
}
